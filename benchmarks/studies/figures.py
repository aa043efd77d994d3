"""Figures of studies: small PNG files, drawn with matplotlib."""

import textwrap
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.studies.study import Result, Row

SIZE_INCH = (8.0, 4.0)
DPI = 90
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#7A8086", "#56B4E9", "#000000")


def save_figure(result: Result, path: Path) -> Path | None:
    """Draw the figure of a result into a PNG file; None if there is nothing to draw."""
    compared = [row for row in result.rows if row.printed is not None]
    if result.draw is None and not compared:
        return None
    figure = Figure(figsize=SIZE_INCH, layout="constrained")
    if result.draw is not None:
        result.draw(figure)
    else:
        draw_rows(figure, compared)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path


def draw_rows(figure: Figure, rows: list[Row]) -> None:
    """Draw our numbers over the printed ones, with three Monte-Carlo errors and the diagonal."""
    axes = figure.subplots()
    several = len({row.quantity for row in rows}) > 1
    labels = list(dict.fromkeys(_label(row, with_quantity=several) for row in rows))
    for i, label in enumerate(labels):
        of_label = [row for row in rows if _label(row, with_quantity=several) == label]
        axes.errorbar(
            [row.printed or 0.0 for row in of_label],
            [row.value for row in of_label],
            yerr=[3.0 * row.error for row in of_label],
            fmt="o" if not of_label[0].reading else "x",
            ms=4,
            lw=1,
            color=COLOURS[i % len(COLOURS)],
            label=label,
        )
    values = [number for row in rows for number in (row.value, row.printed or 0.0)]
    low = min(values)
    high = max(values)
    axes.plot([low, high], [low, high], color="#7A8086", lw=1)
    if low > 0.0 and high > 20.0 * low:
        axes.set(xscale="log", yscale="log")
    axes.set(xlabel="printed", ylabel="bandgap")
    axes.grid(alpha=0.3)
    figure.legend(fontsize=7, loc="outside right upper", frameon=False)


def _label(row: Row, *, with_quantity: bool) -> str:
    """Return the name of a series, in short lines."""
    text = f"{row.quantity}: {row.method}" if with_quantity else row.method
    return "\n".join(textwrap.wrap(text + (f" ({row.reading})" if row.reading else ""), 34))
