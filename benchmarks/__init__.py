"""Measurements of speed, each with its rival in the same run on the same machine: `python -m benchmarks NAME`.

Not here: what the product needs at run time.
"""
