"""Priors of transfer: one file per family.

Not here: samplers.
"""
