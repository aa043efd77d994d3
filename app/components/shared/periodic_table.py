"""A periodic table of buttons: cells coloured by a number, and a selection of elements.

The component is inline (`periodic_table.js`): no frame, no further files, and it follows the theme.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from bandgap.structures.elements import ELEMENTS

_FOLDER = Path(__file__).parent
SCRIPT = (_FOLDER / "periodic_table.js").read_text(encoding="utf-8")
STYLE = (_FOLDER / "periodic_table.css").read_text(encoding="utf-8")
_HTML = '<div class="elements" role="group"></div>\n'
_NOBLE_GASES = (0, 2, 10, 18, 36, 54, 86, 118)
_F_BLOCK_ROW = {6: 9, 7: 10}  # lanthanides and actinides are below the others


@dataclass(frozen=True)
class ElementCell:
    """What a cell shows: a number for its colour, the number as text, and the text of its title."""

    number: float
    text: str
    title: str


def place_of(number: int) -> tuple[int, int]:
    """Return row and column of the element of an atomic number, both from 1.

    >>> place_of(1), place_of(8), place_of(26), place_of(57), place_of(82)
    ((1, 1), (2, 16), (4, 8), (9, 3), (6, 14))
    """
    period = next(k for k, last in enumerate(_NOBLE_GASES) if number <= last)
    position = number - _NOBLE_GASES[period - 1]
    length = _NOBLE_GASES[period] - _NOBLE_GASES[period - 1]
    if length == 32 and 3 <= position <= 17:
        return _F_BLOCK_ROW[period], position
    n_left = {2: 1, 8: 2, 18: 18, 32: 2}[length]
    column = position if position <= n_left else 18 - (length - position)
    return period, column


def shares(numbers: Mapping[str, float], *, logarithmic: bool) -> dict[str, float]:
    """Return the share of the colour of each element, from 0 for the smallest number to 1."""
    scaled = {k: math.log(v) if logarithmic else v for k, v in numbers.items()}
    low, high = min(scaled.values(), default=0.0), max(scaled.values(), default=0.0)
    width = high - low
    return {k: (v - low) / width if width else 1.0 for k, v in scaled.items()}


def periodic_table(
    cells: Mapping[str, ElementCell],
    *,
    selected: Sequence[str],
    key: str,
    label: str,
    logarithmic: bool = False,
    unseen: Collection[str] = (),
) -> tuple[str, ...]:
    """Draw the table and return the selected elements.

    Parameters
    ----------
    cells
        Cells by symbol. Other elements are drawn, but cannot be selected.
    selected
        Elements that are selected before the visitor has clicked. A new `key` starts with them.
    key
        Key of the component.
    label
        What the table shows, for screen readers.
    logarithmic
        Whether the colour follows the logarithm of the number.
    unseen
        Elements with a mark, such as those that a source model has not seen.
    """
    state: Any = st.session_state.get(key)
    clicked = None if state is None else state.get("elements")
    chosen_symbols = list(selected if clicked is None else clicked)
    by_symbol = shares({k: cell.number for k, cell in cells.items()}, logarithmic=logarithmic)
    data = {
        "label": label,
        "selected": [symbol for symbol in chosen_symbols if symbol in cells],
        "cells": [
            _cell(number, symbol, cells.get(symbol), by_symbol.get(symbol), symbol in unseen)
            for number, symbol in enumerate(ELEMENTS, start=1)
        ],
    }
    mount = st.components.v2.component("bandgap-periodic-table", html=_HTML, css=STYLE, js=SCRIPT)
    mount(key=key, data=data, on_elements_change=_do_nothing)
    return tuple(data["selected"])


def _cell(
    number: int, symbol: str, cell: ElementCell | None, share: float | None, is_unseen: bool
) -> dict[str, object]:
    row, column = place_of(number)
    mark = ", never seen by the source model" if is_unseen else ""
    return {
        "symbol": symbol,
        "row": row,
        "column": column,
        "share": share,
        "value": "" if cell is None else cell.text,
        "title": symbol if cell is None else cell.title + mark,
        "unseen": is_unseen,
    }


def _do_nothing() -> None:
    """Do nothing; Streamlit needs a callback, but the value is read before drawing."""
