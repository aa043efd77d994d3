"""The only reader and writer of Streamlit's session state and of the address's query parameters.

The address carries the workspace (`ws`) and what is chosen (`data`, `run`, `runs` to compare), so that a refresh,
another tab or a link comes back to the same place. The workspace's id is random: who has it, sees the workspace.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar
from urllib.parse import parse_qsl, urlencode

import streamlit as st

Choice = Literal["data", "run", "prediction", "source", "runs"]
Tone = Literal["info", "warning", "error"]
Value = TypeVar("Value")

KEPT = "kept-address"  # key of the hidden field

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_CHOICES: tuple[Choice, ...] = ("data", "run", "prediction", "source", "runs")


def start() -> None:
    """Find the workspace and the choices: from the address in a new session, afterwards from the session itself.

    A link of the navigation carries no address. When it is the first that a new session hears of a page that outlived
    its own (the server was started again, or the machine slept), the hidden field of that page says what it showed.
    """
    if "workspace" in st.session_state:
        _keep(_values())
    else:
        asked = dict(st.query_params.to_dict())
        if _UUID.fullmatch(asked.get("ws", "")):
            _keep(asked)
        else:
            asked |= dict(parse_qsl(_keep()))
        found = asked.get("ws", "")
        st.session_state["workspace"] = found if _UUID.fullmatch(found) else str(uuid.uuid4())
        for choice in _CHOICES:
            st.session_state[f"chosen_{choice}"] = asked.get(choice, "")
    _write_address()


def _keep(values: Mapping[str, str] | None = None) -> str:
    """Let the page in the browser keep these values in a hidden field, and return what is in it."""
    if values is not None:
        st.session_state[KEPT] = urlencode(values)
    return str(st.sidebar.text_input("What this page shows", key=KEPT, label_visibility="collapsed"))


def workspace() -> str:
    """Return the id of this visitor's workspace."""
    return str(st.session_state["workspace"])


def chosen(choice: Choice) -> str:
    """Return the id of what is chosen, or an empty text."""
    return str(st.session_state.get(f"chosen_{choice}", ""))


def choose(choice: Choice, value: str) -> None:
    """Choose a data set, a run or a prediction, here and in the address."""
    if chosen(choice) != value:
        st.session_state[f"chosen_{choice}"] = value
        _write_address()


def shown_row(dataset: str) -> int | None:
    """Return the row of a data set whose structure is looked at, None before one was chosen."""
    row: int | None = st.session_state.get(f"row_{dataset}")
    return row


def show_row(dataset: str, row: int) -> None:
    """Look at the structure of this row of a data set."""
    st.session_state[f"row_{dataset}"] = row


def follow(dataset: str, row: int | None) -> None:
    """Look at the row that is marked in a table when the mark is new: "Next" moves on from it."""
    if row is not None and st.session_state.get(f"marked_{dataset}") != row:
        show_row(dataset, row)
    st.session_state[f"marked_{dataset}"] = row


def form_key(form: str) -> str:
    """Return the key of a form's present life: the same until `renew`, so that a double click sends the same key."""
    return str(st.session_state.setdefault(f"form_{form}", uuid.uuid4().hex))


def renew(form: str) -> None:
    """Give a form a new life: its widgets come back empty."""
    st.session_state[f"form_{form}"] = uuid.uuid4().hex


def remembered(key: str, make: Callable[[], Value]) -> Value:
    """Return the object that this session keeps under a key; the first call makes it."""
    if key not in st.session_state:
        st.session_state[key] = make()
    value: Value = st.session_state[key]
    return value


def tell(text: str, *, tone: Tone = "info") -> None:
    """Keep a sentence for the top of the next page run."""
    st.session_state["told"] = (tone, text)


def told() -> tuple[Tone, str] | None:
    """Return the kept sentence once."""
    kept: tuple[Tone, str] | None = st.session_state.pop("told", None)
    return kept


def _values() -> dict[str, str]:
    return {"ws": workspace()} | {choice: chosen(choice) for choice in _CHOICES}


def _write_address() -> None:
    for key, value in _values().items():
        if value and st.query_params.get(key) != value:
            st.query_params[key] = value
        elif not value and key in st.query_params:
            del st.query_params[key]
