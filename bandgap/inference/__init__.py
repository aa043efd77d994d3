"""Samplers: one file per algorithm; each returns draws and diagnostics as two values.

Not here: what a transfer starts from: a sampler knows a density, not a source.
"""
