"""Graphs generated edge by edge: the network, its known answer, and molecules to try next.

Experimental. The packages `rdkit` and `tblite` are imported when molecules need them.

Not here: predictions for proposed molecules, which need a stored run (`bandgap.runs`).
"""
