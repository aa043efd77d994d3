"""Labels, published data sets, and splits into training and test structures.

Descriptors are in `bandgap.descriptors`, models in `bandgap.sources` and `bandgap.runs`.
"""
