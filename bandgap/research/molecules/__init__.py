"""The network that generates molecules edge by edge (E. A. Ott, Probabilistic Neural Networks, 2022,
section 5.4).
"""
