"""The only reader and writer of Streamlit's session state and of the address's query parameters.

The address carries the workspace (`ws`) and what is chosen (`data`, `run`, `runs` to compare), so that a refresh,
another tab or a link comes back to the same place. The workspace's id is random: who has it, sees the workspace.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar
from urllib.parse import parse_qsl, urlencode

import streamlit as st

Choice = Literal["data", "run", "prediction", "source", "runs"]
Tone = Literal["info", "warning", "error"]
Value = TypeVar("Value")

KEPT = "kept-address"  # key of the hidden field

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_REPORT, _FORGETS, _REPLACES = (
    "reported_workspaces",
    "forgets_workspaces",
    "replaces_history_entries",
)
_CHOICES: tuple[Choice, ...] = ("data", "run", "prediction", "source", "runs")


def start(*, exists: Callable[[str], bool], opened: Callable[[str], object]) -> None:
    """Find the workspace and the choices: from the address in a new session, afterwards from the session itself.

    A link of the navigation carries no address. When it is the first that a new session hears of a page that outlived
    its own (the server was started again, or the machine slept), the hidden field of that page says what it showed.

    `exists` says whether the server has a workspace. An address that names none leaves the session without a workspace:
    `unknown_workspace` then says which, until the visitor chooses one. `opened` is told the id of a new workspace.
    """
    if "workspace" in st.session_state:
        _keep(_values())
        st.session_state[_REPLACES] = True
        _write_address()
        return
    asked = dict(st.query_params.to_dict())
    given = unknown_workspace() or asked.get("ws", "")
    if given and not (_UUID.fullmatch(given) and exists(given)):
        st.session_state["unknown_workspace"] = given
        _keep({})
        return
    if given:
        _keep(asked)
    else:
        asked |= dict(parse_qsl(_keep()))
    workspace_id = asked.get("ws", "")
    if not _UUID.fullmatch(workspace_id):
        workspace_id = str(uuid.uuid4())
        opened(workspace_id)
    _set_workspace(workspace_id, asked)


def switch_workspace(workspace_id: str) -> None:
    """Leave all that the session keeps of the present workspace and open another one; for a button's `on_click`."""
    reported, forgets = remembered_workspaces(), forgets_workspaces()
    st.session_state.clear()
    st.session_state[_REPORT], st.session_state[_FORGETS] = reported, forgets
    st.session_state[_REPLACES] = True
    _set_workspace(workspace_id, {})


def unknown_workspace() -> str:
    """Return the workspace that the address names and the server does not have, empty where it names none such."""
    return str(st.session_state.get("unknown_workspace", ""))


def remembered_workspaces() -> list[str] | None:
    """Return the workspaces that this browser remembers, None before it has said so."""
    report: list[str] | None = st.session_state.get(_REPORT)
    return report


def take_report(ids: Sequence[object]) -> None:
    """Take note of the workspaces that the browser remembers; it keeps one entry a page in its history from then on."""
    st.session_state[_REPORT] = [str(each) for each in ids if _UUID.fullmatch(str(each))]
    st.session_state[_REPLACES] = True
    if "workspace" in st.session_state:
        _write_address()


def forget_workspaces() -> None:
    """Let the browser forget all workspaces, and remember none as long as this session lasts."""
    st.session_state[_FORGETS] = True


def forgets_workspaces() -> bool:
    """Return whether the browser is to forget all workspaces."""
    return bool(st.session_state.get(_FORGETS, False))


def _keep(values: Mapping[str, str] | None = None) -> str:
    """Let the page in the browser keep these values in a hidden field, and return what is in it."""
    if values is not None:
        st.session_state[KEPT] = urlencode(values)
    return str(
        st.sidebar.text_input("What this page shows", key=KEPT, label_visibility="collapsed")
    )


def workspace() -> str:
    """Return the id of this visitor's workspace."""
    return str(st.session_state["workspace"])


def workspace_or_none() -> str | None:
    """Return the id of this visitor's workspace, None where the address names an unknown one."""
    return workspace() if "workspace" in st.session_state else None


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


def _set_workspace(workspace_id: str, choices: Mapping[str, str]) -> None:
    st.session_state["workspace"] = workspace_id
    for choice in _CHOICES:
        st.session_state[f"chosen_{choice}"] = choices.get(choice, "")


def _write_address() -> None:
    """Write workspace and choices into the address, all together, as every write is an entry of the browser's history.

    In the first run of a session the browser cannot yet replace an entry, so that the address waits for its report.
    """
    if not st.session_state.get(_REPLACES, False):
        return
    others = {
        key: value
        for key, value in st.query_params.to_dict().items()
        if key not in ("ws", *_CHOICES)
    }
    wanted = others | {key: value for key, value in _values().items() if value}
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)
