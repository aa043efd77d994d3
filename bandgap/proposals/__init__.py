"""Molecules to try next: random changes of known ones, their geometries and their properties.

Experimental. The packages `rdkit` and `tblite` are imported when molecules need them.

Not here: predictions for proposed molecules, which need a stored run (`bandgap.runs`).
"""
