"""Commands of `python -m benchmarks`: read the options, run a benchmark, print its tables."""
