"""Probabilistic backpropagation (PBP) and its variant with atoms (SSPBP).

The weights of a network are independent normals, which are updated row by row.

Not here: where a transfer starts, and what its prior variances are.
"""
