"""What several methods share: their interface, stacks of networks, folds, last layers, trees, noise.

Not here: a method.
"""
