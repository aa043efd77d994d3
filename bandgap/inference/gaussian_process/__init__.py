"""Gaussian processes whose kernels are sums, and draws of their few scales.

Not here: features, which come from a source.
"""
