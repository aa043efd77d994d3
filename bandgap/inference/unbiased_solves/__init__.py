"""Exact Gaussian processes whose linear solves are unbiased instead of complete (ULISSE; Filippone and Engler 2015).

Not here: the likelihood by neighbours (`vecchia`), which is cheaper where it will do.
"""
