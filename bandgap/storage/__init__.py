"""How models are written to disk and checked when read: manifests, tensor files, reference
structures.

Not here: what is in them: that is said where it is made.
"""
