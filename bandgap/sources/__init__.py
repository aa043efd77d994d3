"""Source models: the trained network, its descriptor and card, parts, sets and files, and where a transfer starts.

Not here: what is fitted to a target.
"""
