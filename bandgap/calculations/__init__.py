"""Read band gaps, structures and levels of theory from folders of finished calculations.

Every file gives one result: a labelled structure, or the reason why it gives none.

Not here: tables of labels, which `datasets` reads.
"""

from typing import TYPE_CHECKING

from bandgap.foundation.lazy import names_of

if TYPE_CHECKING:
    from bandgap.calculations.reading import Calculation, read_calculations, read_uploads

__all__ = ["Calculation", "read_calculations", "read_uploads"]

__getattr__ = names_of(
    __name__,
    dict.fromkeys(
        ("Calculation", "read_calculations", "read_uploads"), "bandgap.calculations.reading"
    ),
)
