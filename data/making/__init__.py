"""Generation of the demo data: molecules, packing, lattice energies, tight binding, files.

Not here: code that is used outside of `python -m data.making`.
"""
