"""Read structure files into checked records.

Every structure gets one record with a verdict. A file without structures gets one record that
says why.

Not here: descriptors, labels.
"""

from typing import TYPE_CHECKING

from bandgap.foundation.lazy import names_of

if TYPE_CHECKING:
    from bandgap.structures.formats import ACCEPTED
    from bandgap.structures.objects import as_records
    from bandgap.structures.reading import read_paths, read_structures
    from bandgap.structures.records import DEFAULT_LIMITS, Limits, Problem, StructureRecord

__all__ = [
    "ACCEPTED",
    "DEFAULT_LIMITS",
    "Limits",
    "Problem",
    "StructureRecord",
    "as_records",
    "read_paths",
    "read_structures",
]

__getattr__ = names_of(
    __name__,
    {
        "ACCEPTED": "bandgap.structures.formats",
        "as_records": "bandgap.structures.objects",
        **dict.fromkeys(("read_paths", "read_structures"), "bandgap.structures.reading"),
        **dict.fromkeys(
            ("DEFAULT_LIMITS", "Limits", "Problem", "StructureRecord"), "bandgap.structures.records"
        ),
    },
)
