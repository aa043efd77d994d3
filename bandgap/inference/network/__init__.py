"""The sampler of all weights of a transferred network and of their scales: BTL-PCP and its relatives.

Not here: other densities.
"""
