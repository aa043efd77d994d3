"""The sampler of all weights of a transferred network and of their scales: BTL-PCP and relatives.

Not here: other densities.
"""
