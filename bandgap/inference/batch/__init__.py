"""Many networks of one shape, trained as one batch: bootstrap, ensembles, stochastic gradients.

Not here: a method of its own.
"""
