"""What makes the demo data: molecules, packing, lattice energies, tight binding, files.

Not here: what anything but `python -m data.making` needs.
"""
