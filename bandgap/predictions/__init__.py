"""Predicted gaps: table and files, mixtures, conformal intervals, domain, and what to compute next.

Not here: what fits a model, or needs known gaps.
"""
