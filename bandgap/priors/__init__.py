"""Priors of transfer: one file per family."""
