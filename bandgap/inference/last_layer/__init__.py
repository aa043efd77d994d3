"""Regressions on hidden features: the horseshoe, one global scale, ridge in closed form.

Not here: changes of hidden layers.
"""
