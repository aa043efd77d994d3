"""Redraw figures by matplotlib for a paper: PNG, SVG or PDF at the width of a column, and a table.

The figures of this package have lines, points, bars and ternary diagrams, which are redrawn with
the fonts and line widths of print. No browser is needed.
"""

import html
import io
import re
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Format = Literal["png", "svg", "pdf"]

COLUMN_CM, PAGE_CM = 8.5, 17.0  # usual widths of one and of two columns
DOTS_PER_INCH = 300
_CM_PER_INCH = 2.54
_FONT_POINTS = 8.0
_CHARACTERS_PER_INCH = 15  # of the titles of axes, which are broken into lines
_INK = "#1B1F24"
_POINTS_PER_PIXEL = 0.55  # of markers and lines
_SCREEN_PIXELS = {True: 430.0, False: 720.0}  # width on the screen of a narrow and a wide figure
_DASHES = {"dot": ":", "dash": "--", "dashdot": "-.", "longdash": "--"}
_MARKERS = {
    "circle": "o",
    "diamond": "D",
    "square": "s",
    "cross": "P",
    "x": "X",
    "triangle-up": "^",
    "triangle-down": "v",
    "star": "*",
}
# matplotlib's settings are those of the process, and the dashboard draws in several threads.
_LOCK = threading.Lock()

Floats = NDArray[np.float64]


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
        If the suffix or the figure is of another kind.
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
    import matplotlib
    from matplotlib.figure import Figure

    is_narrow = width_cm < (COLUMN_CM + PAGE_CM) / 2.0
    height = float(fig.layout.height or 360.0) / _SCREEN_PIXELS[is_narrow]
    height_cm = width_cm * float(np.clip(height, 0.4, 1.8))
    settings: Any = {
        "font.size": _FONT_POINTS,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _INK,
        "text.color": _INK,
        "legend.frameon": False,
        "legend.fontsize": _FONT_POINTS - 1.0,
        "pdf.fonttype": 42,  # text stays text
        "svg.fonttype": "none",
        "svg.hashsalt": "bandgap",
    }
    with _LOCK, matplotlib.rc_context(settings):
        drawing = Figure(
            figsize=(width_cm / _CM_PER_INCH, height_cm / _CM_PER_INCH), layout="constrained"
        )
        _draw(fig, drawing.add_subplot())
        stream = io.BytesIO()
        dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        drawing.savefig(stream, format=file_format, dpi=DOTS_PER_INCH, metadata=dates[file_format])
    return stream.getvalue()


def figure_numbers(fig: go.Figure) -> pd.DataFrame:
    """Return the points of a figure, one a row: series, x and y, ends of bars, and label.

    The headers of x and y contain the titles of the axes.
    """
    x_name = f"x: {_text(fig.layout.xaxis.title.text or '')}".rstrip(": ")
    y_name = f"y: {_text(fig.layout.yaxis.title.text or '')}".rstrip(": ")
    tables = []
    for number, trace in enumerate(fig.data, start=1):
        series = _text(trace.name or f"series {number}")
        if trace.type == "scatterternary":
            columns = {"series": series, "a": trace.a, "b": trace.b, "c": trace.c}
            tables.append(pd.DataFrame(columns))
            continue
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


def _draw(fig: go.Figure, axes: Any) -> None:
    if any(trace.type == "scatterternary" for trace in fig.data):
        _draw_ternary(fig, axes)
        return
    categories = {name: _categories(fig, name) for name in ("x", "y")}
    for position, trace in enumerate(fig.data):
        if trace.type == "bar":
            _draw_bars(trace, axes, categories)
        elif trace.type in ("scatter", "scattergl"):
            _draw_scatter(fig, position, axes, categories)
        else:
            raise InputError(
                f"A figure with a trace of the kind {trace.type} cannot be redrawn for a paper. "
                "Accepted: lines, points, bars and ternary diagrams."
            )
    for shape in fig.layout.shapes or ():
        _draw_shape(shape, axes)
    for note in fig.layout.annotations or ():
        _draw_annotation(note, axes)
    for name in ("x", "y"):
        _set_axis(fig.layout[f"{name}axis"], getattr(axes, f"{name}axis"), categories[name])
    if fig.layout.yaxis.scaleanchor:
        axes.set_aspect("equal", adjustable="box")
    _draw_legend(fig, axes)


def _draw_scatter(
    fig: go.Figure, position: int, axes: Any, categories: dict[str, list[str]]
) -> None:
    trace = fig.data[position]
    x = _places(trace.x, categories["x"])
    y = _places(trace.y, categories["y"])
    mode = trace.mode or "lines"
    colour, opacity = _colour(trace.line.color or _one(trace.marker.color) or _INK)
    if trace.fill:
        face, alpha = _colour(trace.fillcolor or trace.line.color or _INK)
        alpha = alpha if trace.fillcolor else 0.25
        base: Any = 0.0
        previous = fig.data[position - 1] if trace.fill == "tonexty" and position else None
        if previous is not None and len(previous.x) == len(x):
            base = _places(previous.y, categories["y"])
        if trace.fill == "toself":
            axes.fill(x, y, color=face, alpha=alpha, linewidth=0, label=_label(fig, trace))
        else:
            axes.fill_between(x, y, base, color=face, alpha=alpha, linewidth=0)
    if "lines" in mode and trace.line.width != 0:
        width = _POINTS_PER_PIXEL * (2.0 if trace.line.width is None else trace.line.width)
        axes.plot(
            x,
            y,
            color=colour,
            alpha=opacity if trace.opacity is None else trace.opacity,
            linewidth=width,
            linestyle=_DASHES.get(trace.line.dash or "", "-"),
            label=None if "markers" in mode else _label(fig, trace),
        )
    for name in ("x", "y"):
        _draw_error_bars(trace, name, axes, x, y, colour)
    if "markers" in mode and trace.marker.opacity != 0:
        _draw_markers(fig, trace, axes, x, y)
    if "text" in mode and trace.text is not None:
        for u, v, text in zip(x, y, _listed(trace.text), strict=True):
            axes.annotate(
                _label_text(text), (u, v), (0, 4), textcoords="offset points", ha="center"
            )


def _draw_markers(fig: go.Figure, trace: Any, axes: Any, x: Floats, y: Floats) -> None:
    symbol = _one(trace.marker.symbol) or "circle"
    is_open = symbol.endswith("-open")
    sizes: Any = 6.0 if trace.marker.size is None else trace.marker.size
    area = (_POINTS_PER_PIXEL * np.asarray(sizes, dtype=np.float64)) ** 2
    colours = _marker_colours(trace)
    axes.scatter(
        x,
        y,
        s=area,
        marker=_MARKERS.get(symbol.removesuffix("-open"), "o"),
        facecolors="none" if is_open else colours,
        edgecolors=colours if is_open else "none",
        linewidths=0.8,
        label=_label(fig, trace),
        zorder=3,
    )


def _marker_colours(trace: Any) -> Any:
    """Return one colour or one for every point (n, 4)."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    values = trace.marker.color
    if values is None or isinstance(values, str):
        return to_rgba(*_colour(values or trace.line.color or _INK))
    if all(isinstance(value, str) for value in values):
        return [to_rgba(*_colour(value)) for value in values]
    numbers = np.asarray(values, dtype=np.float64)
    low = numbers.min() if trace.marker.cmin is None else trace.marker.cmin
    high = numbers.max() if trace.marker.cmax is None else trace.marker.cmax
    scale = trace.marker.colorscale or ((0.0, "#7A8086"), (1.0, "#0072B2"))
    colours = LinearSegmentedColormap.from_list("scale", [(p, _colour(c)[0]) for p, c in scale])
    return colours((numbers - low) / max(float(high - low), 1e-12))


def _draw_error_bars(trace: Any, name: str, axes: Any, x: Floats, y: Floats, colour: str) -> None:
    bars = trace[f"error_{name}"]
    if bars.array is None:
        return
    high = np.asarray(bars.array, dtype=np.float64)
    low = high if bars.arrayminus is None else np.asarray(bars.arrayminus, dtype=np.float64)
    bar_colour, alpha = _colour(bars.color or _one(trace.marker.color) or colour)
    axes.errorbar(
        x,
        y,
        **{f"{name}err": np.abs(np.stack([low, high]))},
        fmt="none",
        ecolor=bar_colour,
        alpha=alpha,
        elinewidth=_POINTS_PER_PIXEL * float(bars.thickness or 1.0),
        zorder=1,
    )


def _draw_bars(trace: Any, axes: Any, categories: dict[str, list[str]]) -> None:
    x = _places(trace.x, categories["x"])
    y = _places(trace.y, categories["y"])
    colours = _marker_colours(trace)
    if trace.orientation == "h":
        axes.barh(y, x, height=0.8, color=colours)
        return
    widths = 0.8 if trace.width is None else np.asarray(trace.width, dtype=np.float64)
    axes.bar(x, y, width=0.96 * widths, color=colours)


def _draw_shape(shape: Any, axes: Any) -> None:
    """Draw a line or a band across the axes."""
    is_upright = "domain" in (shape.yref or "") or shape.yref == "paper"
    if shape.type == "rect":
        colour, alpha = _colour(shape.fillcolor or _INK)
        span = axes.axvspan if is_upright else axes.axhspan
        ends = (shape.x0, shape.x1) if is_upright else (shape.y0, shape.y1)
        span(*ends, color=colour, alpha=alpha, linewidth=0, zorder=0)
        return
    colour, alpha = _colour(shape.line.color or _INK)
    style = {
        "color": colour,
        "alpha": alpha,
        "linewidth": _POINTS_PER_PIXEL * float(shape.line.width or 1.0),
        "linestyle": _DASHES.get(shape.line.dash or "", "-"),
    }
    if is_upright:
        axes.axvline(shape.x0, **style)
    elif "domain" in (shape.xref or "") or shape.xref == "paper":
        axes.axhline(shape.y0, **style)
    else:
        axes.plot([shape.x0, shape.x1], [shape.y0, shape.y1], **style)


def _draw_annotation(note: Any, axes: Any) -> None:
    if not note.text or note.x is None or note.y is None:
        return
    in_axes = {name: note[f"{name}ref"] in (None, "x", "y") for name in ("x", "y")}
    if in_axes["x"] and in_axes["y"]:
        transform = axes.transData
    elif in_axes["y"]:
        transform = axes.get_yaxis_transform()
    elif in_axes["x"]:
        transform = axes.get_xaxis_transform()
    else:
        transform = axes.transAxes
    colour, _ = _colour(note.font.color or _INK)
    axes.text(
        note.x,
        note.y,
        _label_text(note.text),
        color=colour,
        transform=transform,
        ha=note.xanchor if note.xanchor in ("left", "right") else "center",
        va={"top": "top", "bottom": "bottom"}.get(note.yanchor or "", "center"),
    )


def _set_axis(settings: Any, axis: Any, categories: list[str]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, PercentFormatter

    name = axis.axis_name
    axes = axis.axes
    n_characters = int(_CHARACTERS_PER_INCH * axes.figure.get_size_inches()[0])
    axis.set_label_text(textwrap.fill(_label_text(settings.title.text or ""), n_characters))
    if settings.showgrid is not False:
        axis.grid(True, color="#E3E6E9", linewidth=0.5)
    axes.set_axisbelow(True)
    is_log = settings.type == "log"
    if is_log:
        getattr(axes, f"set_{name}scale")("log")
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if settings.range is not None and not categories:
        low, high = (10.0**end if is_log else end for end in settings.range)
        getattr(axes, f"set_{name}lim")(low, high)
    if categories:
        axis.set_ticks(range(len(categories)), [_label_text(text) for text in categories])
        if name == "x" and max(len(text) for text in categories) > 4:
            axis.set_tick_params(rotation=45)
    elif settings.tickvals is not None:
        texts = settings.ticktext if settings.ticktext is not None else settings.tickvals
        axis.set_ticks(list(settings.tickvals), [_label_text(str(text)) for text in texts])
    elif settings.dtick is not None and not is_log:
        axis.set_major_locator(MultipleLocator(float(settings.dtick)))
    if settings.tickformat and "%" in settings.tickformat:
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    if settings.rangemode == "tozero":
        getattr(axes, f"set_{name}lim")(**{"bottom" if name == "y" else "left": 0})
    if settings.autorange == "reversed":
        getattr(axes, f"invert_{name}axis")()


def _draw_legend(fig: go.Figure, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if not fig.layout.showlegend or not handles:
        return
    if fig.layout.legend.orientation == "h":
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "borderaxespad": 0.2}
        axes.legend(handles, labels, columnspacing=1.0, handletextpad=0.4, **place)
    else:
        axes.legend(handles, labels, loc="best", handletextpad=0.4)


def _draw_ternary(fig: go.Figure, axes: Any) -> None:
    """Draw a triangle: a is up, b at the lower left, c at the lower right."""
    height = 3.0**0.5 / 2.0
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.plot([0, 1, 0.5, 0], [0, 0, height, 0], color=_INK, linewidth=0.8)
    for share in (0.25, 0.5, 0.75):
        grid = {"color": "#D5DADF", "linewidth": 0.5, "zorder": 0}
        axes.plot([share / 2, 1 - share / 2], [share * height] * 2, **grid)
        axes.plot([share, (1 + share) / 2], [0, (1 - share) * height], **grid)
        axes.plot([share, share / 2], [0, share * height], **grid)
    for trace in fig.data:
        a, b, c = (np.asarray(trace[name], dtype=np.float64) for name in "abc")
        total = a + b + c
        _draw_markers(fig, trace, axes, (c + a / 2.0) / total, a * height / total)
    corners = {"aaxis": (0.5, height + 0.03), "baxis": (0, -0.03), "caxis": (1, -0.03)}
    for name, (x, y) in corners.items():
        text = _label_text(fig.layout.ternary[name].title.text or "")
        axes.text(x, y, text, ha="center", va="bottom" if y > 0 else "top")
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(-0.05, 1.0))


def _categories(fig: go.Figure, name: str) -> list[str]:
    """Return the texts of an axis in their order, an empty list for an axis of numbers."""
    axis = fig.layout[f"{name}axis"]
    if axis.categoryarray is not None:
        return [str(text) for text in axis.categoryarray]
    texts = [
        str(value)
        for trace in fig.data
        for value in _listed(trace[name])
        if isinstance(value, str) or axis.type == "category"
    ]
    return list(dict.fromkeys(texts))


def _places(values: Any, categories: list[str]) -> Floats:
    if categories:
        values = [categories.index(str(value)) for value in _listed(values)]
    return np.asarray(values, dtype=np.float64)


def _label(fig: go.Figure, trace: Any) -> str | None:
    if not fig.layout.showlegend or trace.showlegend is False or not trace.name:
        return None
    return _label_text(trace.name)


def _colour(text: str) -> tuple[str, float]:
    """Return "#RRGGBB" and the opacity of a colour of Plotly.

    >>> _colour("rgba(0,114,178,0.4)")
    ('#0072b2', 0.4)
    """
    numbers = re.fullmatch(r"rgba?\(([^)]*)\)", text.strip())
    if numbers is None:
        return text, 1.0
    parts = [float(part) for part in numbers.group(1).split(",")]
    red, green, blue = (round(part) for part in parts[:3])
    return f"#{red:02x}{green:02x}{blue:02x}", parts[3] if len(parts) > 3 else 1.0


def _one(value: Any) -> str | None:
    """Return a setting that is one text, None where every point has its own."""
    return value if isinstance(value, str) else None


def _listed(values: Any) -> list[Any]:
    if values is None:
        return []
    return np.asarray(values, dtype=object).tolist() if not isinstance(values, str) else [values]


def _text(text: str) -> str:
    """Return the text of a label of Plotly, which contains HTML."""
    return html.unescape(re.sub(r"<[^<>]+>", "", text.replace("<br>", "\n")))


def _label_text(text: Sequence[str] | str) -> str:
    """Return a label for matplotlib, which would read text between dollars as a formula."""
    return _text(str(text)).replace("$", r"\$")
