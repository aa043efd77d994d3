"""Find numbers in tables of the pages that the browser would write in its own notation."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def columns_without_format(table: Any, column_config: Mapping[str, Any] | None) -> list[str]:
    """Return the columns with floats that have no printf format such as %.2f.

    Without one, or with the format "localized", the browser decides on digits and separators, so
    that one table has 1.2345 and 1,234 in different languages.
    """
    data = pd.DataFrame(getattr(table, "data", table))  # that of a Styler
    return [
        str(name)
        for name in data.columns
        if _has_floats(data[name]) and not _has_printf_format((column_config or {}).get(name, {}))
    ]


def _has_floats(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_float_dtype(column) or (
        column.dtype == object and any(isinstance(value, float) for value in column.dropna())
    )


def _has_printf_format(config: Any) -> bool:
    if config is None:  # a hidden column
        return True
    settings = config.get("type_config") if isinstance(config, Mapping) else None
    return str((settings or {}).get("format") or "").startswith("%")
