"""Priors of transfer, one file for each family.

Not here: samplers.
"""
