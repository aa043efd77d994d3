"""The addresses of small pictures of structures, for tables.

The browser requests the pictures of the rows that it shows, and `picture_route` draws them. A table
of many rows therefore costs no more than a short one.
"""

from collections.abc import Sequence

from app.components.shared import stores
from app.components.structures.picture_route import FOLDER
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import rows_of_ids


def picture_addresses(dataset_id: str, rows: Sequence[int | None]) -> list[str | None]:
    """Return the addresses of pictures for a table.

    Parameters
    ----------
    dataset_id
        Id of the data set.
    rows
        Rows of the data set, None for a structure without a picture, such as a refused one.
    """
    try:
        changed = shapes_path(stores.home(), dataset_id).stat().st_mtime_ns
    except (OSError, BandgapError):
        return [None] * len(rows)
    start, end = f"{FOLDER}/{dataset_id}/", f".svg?changed={changed:x}"
    return [None if row is None else f"{start}{row}{end}" for row in rows]


def pictures_of_ids(dataset_id: str, ids: Sequence[str]) -> list[str | None]:
    """Return the addresses of the pictures of structures with these ids."""
    row_of_id = rows_of_ids(stores.library(), dataset_id, ids)
    return picture_addresses(dataset_id, [row_of_id.get(id) for id in ids])
