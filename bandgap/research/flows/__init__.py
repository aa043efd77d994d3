"""Masked autoregressive flows with a nonparametric posterior: densities of feature vectors."""
