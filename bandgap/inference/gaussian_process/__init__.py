"""Gaussian processes with sum and product kernels, and draws of their scales.

Not here: features, which come from a source.
"""
