"""Samplers: one file per algorithm; each returns draws and diagnostics as two values."""
