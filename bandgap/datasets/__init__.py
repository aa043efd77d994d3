"""Labels, published data sets and splits, read into structures and gaps.

Not here: descriptors of them, models.
"""
