"""Stochastic-gradient MCMC for log densities that are sums over rows.

Samplers: SGLD, pSGLD, MSGLD, ASGLD, SGHMC, HAMCMC and HAMCMC-SA.

Not here: source models, and the low-temperature cycles of the method `sghmc` (`inference/batch`).
"""
