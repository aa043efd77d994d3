"""Labels, published data sets, and splits into training and test structures.

Not here: descriptors of structures, models.
"""
