"""Structure files in, checked records out: one verdict for every structure, and for every file that holds none."""

from bandgap.structures.formats import ACCEPTED
from bandgap.structures.reading import read_paths, read_structures
from bandgap.structures.records import DEFAULT_LIMITS, Limits, Problem, StructureRecord

__all__ = ["ACCEPTED", "DEFAULT_LIMITS", "Limits", "Problem", "StructureRecord", "read_paths", "read_structures"]
