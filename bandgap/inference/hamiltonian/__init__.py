"""Hamiltonian Monte Carlo and NUTS for any log density over vectors, with windowed adaptation.

Not here: what knows of a network.
"""
