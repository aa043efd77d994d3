"""Source models: training, extras, cards, files, and the scales on which a transfer starts.

Not here: what is fitted to a target.
"""
