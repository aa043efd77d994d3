"""Many networks of one shape, trained as one batch: posterior bootstrap, ensembles, stochastic gradients.

Not here: a method of its own.
"""
