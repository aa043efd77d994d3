"""Read a table of predictions: the CSV or Parquet file of `predict`, or a CSV that Excel saved."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandgap.foundation.errors import InputError
from bandgap.predictions.table import COLUMNS, NUMBER_COLUMNS, read_predictions_csv

if TYPE_CHECKING:
    import pandas as pd

_PARQUET_MAGIC = b"PAR1"


def read_predictions(path: Path | str) -> "pd.DataFrame":
    """Read a table of predictions, whose content decides whether it is Parquet or CSV.

    The result is that of `read_predictions_csv` for the same predictions. Raises InputError for a
    file that is not such a table.
    """
    try:
        with Path(path).open("rb") as file:
            is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    except OSError as error:
        raise InputError(
            f"{path}: the table cannot be read ({error.strerror or error}). Give the CSV or Parquet"
            " file that predict wrote."
        ) from error
    return _read_parquet(Path(path)) if is_parquet else read_predictions_csv(path)


def _read_parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = pq.read_table(path).to_pydict()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: a damaged Parquet file ({error}). Run predict again.") from error
    missing = [column for column in COLUMNS[:-1] if column not in columns]
    if missing:
        raise InputError(
            f"{path}: column {missing[0]!r} is missing. Accepted: columns {', '.join(COLUMNS)}."
        )
    return pd.DataFrame(
        {
            name: _numbers(values, where=f"{path}: column {name!r}")
            if name in NUMBER_COLUMNS
            else pd.Series(["" if value is None else str(value) for value in values], dtype="str")
            for name, values in columns.items()
        }
    )


def _numbers(values: list[Any], *, where: str) -> "pd.Series[Any]":
    import pandas as pd

    try:
        return pd.Series(values, dtype="float64")
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} has a value that is not a number ({error}).") from error
