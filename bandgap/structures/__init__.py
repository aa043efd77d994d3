"""Structure files in, checked records out: one verdict for every structure, and for every file that holds none.

Not here: descriptors, labels.
"""

from typing import TYPE_CHECKING

from bandgap.foundation.lazy import names_of

if TYPE_CHECKING:
    from bandgap.structures.formats import ACCEPTED
    from bandgap.structures.reading import read_paths, read_structures
    from bandgap.structures.records import DEFAULT_LIMITS, Limits, Problem, StructureRecord

__all__ = ["ACCEPTED", "DEFAULT_LIMITS", "Limits", "Problem", "StructureRecord", "read_paths", "read_structures"]

__getattr__ = names_of(
    __name__,
    {
        "ACCEPTED": "bandgap.structures.formats",
        **dict.fromkeys(("read_paths", "read_structures"), "bandgap.structures.reading"),
        **dict.fromkeys(("DEFAULT_LIMITS", "Limits", "Problem", "StructureRecord"), "bandgap.structures.records"),
    },
)
