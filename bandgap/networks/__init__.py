"""The network, the scaling of its rows, its training, and what is known of its weights.

Not here: a source, a target, a file.
"""
