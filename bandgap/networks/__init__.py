"""Networks: shapes, standardised rows, training, and approximate posteriors of weights.

Not here: sources, targets and files.
"""
