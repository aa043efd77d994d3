"""Exact Gaussian processes with unbiased instead of complete linear solves (ULISSE).

Filippone and Engler (2015). Not here: Vecchia's likelihood (`vecchia`), which is cheaper.
"""
