"""Stochastic-gradient MCMC for any log density over rows: SGLD, pSGLD, MSGLD, ASGLD, SGHMC, HAMCMC and HAMCMC-SA.

Not here: what knows of a source; the low-temperature cycles of the method `sghmc` (`inference/batch`).
"""
