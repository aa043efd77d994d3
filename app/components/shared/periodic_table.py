"""A periodic table of buttons: cells coloured by a number, and a selection of elements.

The component is inline (`periodic_table.js`): no frame, no further files, and it follows the theme.
"""

import math
from collections.abc import Mapping, Sequence
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
    """What a cell shows: a positive number for its colour, and the text of its title."""

    number: float
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


def shares(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the share of the colour of each element by the logarithm of its number.

    It is 0 for the smallest number and 1 for the largest.
    """
    low, high = min(numbers.values(), default=1.0), max(numbers.values(), default=1.0)
    width = math.log(high / low)
    return {k: math.log(v / low) / width if width else 1.0 for k, v in numbers.items()}


def periodic_table(
    cells: Mapping[str, ElementCell], *, selected: Sequence[str], key: str, label: str
) -> tuple[str, ...]:
    """Draw the table and return the selected elements.

    Parameters
    ----------
    cells
        Cells by symbol. Other elements are drawn, but cannot be selected.
    selected
        Elements that are selected before the visitor has clicked.
    key
        Key of the component.
    label
        What the table shows, for screen readers.
    """
    state: Any = st.session_state.get(key)
    clicked = None if state is None else state.get("elements")
    chosen_symbols = list(selected if clicked is None else clicked)
    by_symbol = shares({k: cell.number for k, cell in cells.items()})
    data = {
        "label": label,
        "selected": [symbol for symbol in chosen_symbols if symbol in cells],
        "cells": [
            {
                "symbol": symbol,
                "row": place_of(number)[0],
                "column": place_of(number)[1],
                "share": by_symbol.get(symbol),
                "title": cells[symbol].title if symbol in cells else symbol,
            }
            for number, symbol in enumerate(ELEMENTS, start=1)
        ],
    }
    mount = st.components.v2.component("bandgap-periodic-table", html=_HTML, css=STYLE, js=SCRIPT)
    mount(key=key, data=data, on_elements_change=lambda: None)
    return tuple(data["selected"])
