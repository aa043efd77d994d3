"""Benchmarks of speed and accuracy: `python -m benchmarks NAME`.

Every benchmark measures a method and its alternatives in the same run on the same machine.

Not here: code that the package `bandgap` needs at run time.
"""
