"""The commands of `python -m benchmarks`: each reads its options, runs one benchmark and prints its tables."""
