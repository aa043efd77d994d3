"""The network that generates molecules edge by edge.

Reference: E. A. Ott, Probabilistic Neural Networks (thesis, 2022), chapter 5.
"""
