"""Figures for a paper: PNG, SVG or PDF at the width of a column, and their numbers as a table.

Plotly exports a figure by an installed browser (`kaleido`).
"""

import html
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from bandgap.foundation.browsers import find_browser
from bandgap.foundation.errors import InputError
from bandgap.plots.style import template

Format = Literal["png", "svg", "pdf"]

COLUMN_CM, PAGE_CM = 8.5, 17.0  # usual widths of one and of two columns
_DOTS_PER_CM = {"png": 300 / 2.54, "svg": 96 / 2.54, "pdf": 96 / 2.54}
_PIXELS_PER_CM = 46.0  # of the screen: text of 13 pixels is printed in 8 points
_HEIGHT_PIXELS = 360.0  # of a figure that states none


def save_figure(fig: go.Figure, path: Path | str, *, width_cm: float = COLUMN_CM) -> None:
    """Write a figure as a file whose suffix, .png, .svg or .pdf, is its format.

    Parameters
    ----------
    fig
        A figure of `bandgap.plots`.
    path
        The file.
    width_cm
        Width of the figure in cm.

    Raises
    ------
    InputError
        If the suffix is another one, and where no browser is installed.
    """
    path = Path(path)
    suffix = path.suffix.lower().removeprefix(".")
    for file_format in ("png", "svg", "pdf"):
        if suffix == file_format:
            path.write_bytes(figure_file(fig, file_format, width_cm=width_cm))
            return
    raise InputError(f"{path.name} does not end in .png, .svg or .pdf. Choose one of these.")


def figure_file(fig: go.Figure, file_format: Format, *, width_cm: float = COLUMN_CM) -> bytes:
    """Return a figure as a PNG of 300 dots per inch, an SVG or a PDF; see `save_figure`."""
    browser = find_browser()
    if browser is None:
        raise InputError(
            "No browser that exports figures is installed (Chromium, Chrome or Edge). Install one, "
            "or write the figure with its method `write_html`."
        )
    import kaleido

    image: bytes = kaleido.calc_fig_sync(
        print_figure(fig),
        {"format": file_format, **export_size(fig, file_format, width_cm=width_cm)},
        kopts={"path": browser, "mathjax": False},
    )
    return image


def print_figure(fig: go.Figure) -> go.Figure:
    """Return the figure on white, with the colours of the light theme."""
    return go.Figure(fig).update_layout(template=template(), paper_bgcolor="white")


def export_size(fig: go.Figure, file_format: Format, *, width_cm: float) -> dict[str, float]:
    """Return width, height (pixels) and scale with which Plotly exports a figure of `width_cm`."""
    return {
        "width": _PIXELS_PER_CM * width_cm,
        "height": float(fig.layout.height or _HEIGHT_PIXELS),
        "scale": _DOTS_PER_CM[file_format] / _PIXELS_PER_CM,
    }


def figure_numbers(fig: go.Figure) -> pd.DataFrame:
    """Return the points of a figure, one a row: series, x and y, ends of bars, and label.

    The headers of x and y contain the titles of the axes.
    """
    x_name = f"x: {_text(fig.layout.xaxis.title.text or '')}".rstrip(": ")
    y_name = f"y: {_text(fig.layout.yaxis.title.text or '')}".rstrip(": ")
    tables = []
    for number, trace in enumerate(fig.data, start=1):
        series = _text(trace.name or f"series {number}")
        values: dict[str, Any] = {x_name: _listed(trace.x), y_name: _listed(trace.y)}
        for name, bars in (("x", trace.error_x), ("y", trace.error_y)):
            if bars.array is not None:
                centre = np.asarray(trace[name], dtype=np.float64)
                high = np.asarray(bars.array, dtype=np.float64)
                low = high if bars.arrayminus is None else np.asarray(bars.arrayminus)
                values |= {f"{name} lower": centre - low, f"{name} upper": centre + high}
        labels = _labels(trace)
        if labels is not None and len(labels) == len(values[x_name]):
            values["label"] = labels
        tables.append(pd.DataFrame({"series": series, **values}))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"series": []})


def _labels(trace: Any) -> list[str] | None:
    """Return the names of the points, if the trace has them."""
    names: Any = trace.customdata if trace.customdata is not None else trace.text
    if names is None or isinstance(names, str):
        return None
    names = np.asarray(names, dtype=object)
    names = names if names.ndim == 1 else names[:, 0]
    return [_text(name) for name in names] if all(isinstance(n, str) for n in names) else None


def _listed(values: Any) -> list[Any]:
    if values is None:
        return []
    return np.asarray(values, dtype=object).tolist() if not isinstance(values, str) else [values]


def _text(text: str) -> str:
    """Return the text of a label of Plotly, which contains HTML."""
    return html.unescape(re.sub(r"<[^<>]+>", "", text.replace("<br>", "\n")))
