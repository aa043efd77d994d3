"""Figures of studies: small PNG files, drawn with matplotlib."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.studies.published_tables import numbers_in
from benchmarks.studies.study import Result, Row, Values, mean_of

SIZE_INCH = (8.0, 4.0)
DPI = 90
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#7A8086", "#56B4E9", "#000000")


def save_figure(result: Result, path: Path) -> Path | None:
    """Draw the figure of a result into a PNG file; None if there is nothing to draw."""
    draw = result.study.draw
    compared = [row for row in result.rows if row.printed is not None]
    if draw is None and not compared:
        return None
    figure = Figure(figsize=SIZE_INCH, layout="constrained")
    if draw is not None:
        draw(figure, result.values)
    else:
        draw_rows(figure, compared)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path


def draw_rows(figure: Figure, rows: list[Row]) -> None:
    """Draw our numbers over the printed ones, one panel a quantity, with the diagonal.

    Bars are three Monte-Carlo errors. Crosses are other readings of the text.
    """
    methods = list(dict.fromkeys(row.method for row in rows))
    quantities = list(dict.fromkeys(row.quantity for row in rows))
    panels = figure.subplots(1, len(quantities), squeeze=False)[0]
    for axes, quantity in zip(panels, quantities, strict=True):
        numbers = []
        for row in (row for row in rows if row.quantity == quantity):
            assert row.printed is not None
            style = {"fmt": "x" if row.reading else "o", "color": _colour(methods, row.method)}
            axes.errorbar(row.printed, row.value, yerr=3.0 * row.error, ms=4, lw=0.7, **style)
            numbers += [row.printed, row.value]
        axes.plot(sorted(numbers), sorted(numbers), color=COLOURS[5], lw=1)
        if 0.0 < 20.0 * min(numbers) < max(numbers):
            axes.set(xscale="log", yscale="log")
        axes.set(xlabel="printed", ylabel="bandgap")
        axes.set_title(quantity, fontsize=8)
    for method in methods:
        panels[0].plot([], [], "o", ms=4, color=_colour(methods, method), label=method)
    figure.legend(fontsize=7, loc="outside lower center", ncols=4, frameon=False)


def _colour(methods: list[str], method: str) -> str:
    return COLOURS[methods.index(method) % len(COLOURS)]


def draw_curves(quantity: str, name: str) -> Callable[[Figure, Values], None]:
    """Return a function that draws a quantity against a number in the settings, by method."""

    def draw(figure: Figure, values: Values) -> None:
        axes = figure.subplots()
        keys = [key for key in values if key.quantity == quantity and not key.reading]
        methods = list(dict.fromkeys(key.method for key in keys))
        for method in methods:
            of_method = [key for key in keys if key.method == method]
            x = [float(numbers_in(key.setting)[name]) for key in of_method]
            means, errors, _ = zip(*(mean_of(values[key]) for key in of_method), strict=True)
            axes.errorbar(
                x, means, yerr=errors, fmt="o-", color=_colour(methods, method), label=method
            )
        axes.set(xlabel=name, ylabel=quantity)
        axes.set_xscale("symlog" if min(x) == 0 else "log")
        axes.grid(alpha=0.3)
        figure.legend(fontsize=7, loc="outside lower center", ncols=4, frameon=False)

    return draw
