"""What several methods share: their interface, ensembles of networks, folds, last layers, trees.

Not here: a method.
"""
