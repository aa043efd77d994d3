"""Figures of studies: small PNG files, drawn with matplotlib."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
    """Draw our numbers over the printed ones, one panel a quantity, with the diagonal.

    Bars are three Monte-Carlo errors. Crosses are other readings of the text.
    """
    quantities = list(dict.fromkeys(row.quantity for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    panels = figure.subplots(1, len(quantities), squeeze=False)[0]
    for axes, quantity in zip(panels, quantities, strict=True):
        part = [row for row in rows if row.quantity == quantity]
        for row in part:
            axes.errorbar(
                [row.printed or 0.0],
                [row.value],
                yerr=[3.0 * row.error],
                fmt="x" if row.reading else "o",
                ms=4,
                lw=0.7,
                alpha=0.5 if row.reading else 1.0,
                color=COLOURS[methods.index(row.method) % len(COLOURS)],
            )
        values = [number for row in part for number in (row.value, row.printed or 0.0)]
        low = min(values)
        high = max(values)
        axes.plot([low, high], [low, high], color="#7A8086", lw=1)
        if low > 0.0 and high > 20.0 * low:
            axes.set(xscale="log", yscale="log")
        axes.set(xlabel="printed", title=quantity)
        axes.title.set_fontsize(8)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("bandgap")
    handles = [
        Line2D([], [], marker="o", ls="", ms=4, color=COLOURS[i % len(COLOURS)], label=method)
        for i, method in enumerate(methods)
    ]
    if any(row.reading for row in rows):
        handles.append(Line2D([], [], marker="x", ls="", color="#7A8086", label="other reading"))
    figure.legend(handles=handles, fontsize=7, loc="outside lower center", ncols=4, frameon=False)
