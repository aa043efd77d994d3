"""Networks whose weights stay independent normals while rows are taken in one by one: PBP and its variant with atoms.

Not here: where a transfer starts, and what its prior variances are.
"""
