"""Gaussian processes for many rows: each given its nearest earlier ones (Vecchia), samplers of the scales, kriging.

Not here: what coordinates mean, and where they come from.
"""
