"""The methods of the registry as checkboxes, grouped by family, each with what it does and what it costs."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from components.shared import words

LAST = "without transfer"  # the family that is only there to compare with
PARTS = {
    "fisher": "Fisher information",
    "variational": "a variational posterior of its weights",
    "snapshots": "snapshots of its training",
}


def choose_methods(methods: Mapping[str, Mapping[str, Any]], *, parts: frozenset[str]) -> list[str]:
    """Draw a checkbox for every method and return those that are chosen; `parts` is what the source model carries.

    The first method is chosen to begin with. A method that needs a part that the source lacks says so, and cannot be.
    """
    families: dict[str, list[str]] = {}
    for name, method in sorted(methods.items(), key=lambda item: item[1].get("family") == LAST):
        families.setdefault(method.get("family", ""), []).append(name)
    default = next(iter(methods))
    chosen: list[str] = []
    st.markdown("Methods", help=_HELP)
    for family, names in families.items():
        title = f"{words.sentence(family)} ({len(names)})" if family else words.count(len(names), "method")
        with st.expander(title, expanded=default in names):
            for name in names:
                if _checkbox(name, methods[name], parts=parts, chosen=name == default):
                    chosen.append(name)
    return chosen


def _checkbox(name: str, method: Mapping[str, Any], *, parts: frozenset[str], chosen: bool) -> bool:
    need = method.get("needs", "")
    missing = bool(need) and need not in parts
    ticked = st.checkbox(method["title"], value=chosen and not missing, key=f"method-{name}", disabled=missing)
    why = f" Needs a source model with {PARTS.get(need, need)}, which this one lacks." if missing else ""
    st.caption(f"{method['summary']} Takes {method['cost']}.{why}")
    return ticked and not missing


_HELP = (
    "Several methods make several runs with the same split, so that they can be compared. The first kind learns how "
    "far every layer may move and gives intervals from that; the last kind does without the source model."
)
