"""The tables and figures of the methods' papers, recomputed: `python -m benchmarks study NAME`.

One file a study. `published/` has the printed numbers with their citations, `results/` what the
last runs gave. Nothing here is in the wheel.
"""
