"""Workspace and choices of a session, in Streamlit's session state and in the address.

The address contains the workspace (`ws`) and the choices (`data`, `run`, `runs` to compare,
`window`), so that a refresh, another tab or a link shows the same content. The id of a workspace is
random: where the server knows no persons, whoever has it can see the workspace.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Literal, get_args
from urllib.parse import parse_qsl, quote, urlencode

import streamlit as st

Choice = Literal["data", "run", "prediction", "source", "runs", "window"]
Tone = Literal["info", "warning", "error"]

ADDRESS_FIELD = "kept-address"  # key of the field that `document.py` hides

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_REPLACES = "replaces_history_entries"
_CHOICES: tuple[Choice, ...] = get_args(Choice)


def start(
    *,
    exists: Callable[[str], bool],
    may_open: Callable[[str], bool],
    on_new: Callable[[str], object],
) -> None:
    """Set workspace and choices: from the address in a new session, later from the session.

    A link of the navigation contains no address. It can be the first request of a new session
    when the page is older than the session (the server was restarted, or the machine slept). The
    hidden field of that page then contains what it showed.

    Parameters
    ----------
    exists, may_open
        Return whether the server has the workspace of an id, and whether the visitor may open it.
        If not, the session has no workspace; `unknown_workspace` returns the id until the visitor
        chooses another one.
    on_new
        Receives the id of a new workspace.
    """
    if "workspace" in st.session_state and may_open(workspace()):
        _hidden_field(_values())
        st.session_state[_REPLACES] = True
        _write_address()
        return
    parameters = dict(st.query_params.to_dict())
    lost_id = st.session_state.pop("workspace", "")
    requested_id = str(lost_id or unknown_workspace() or parameters.get("ws", ""))
    if requested_id and not (
        _UUID.fullmatch(requested_id) and exists(requested_id) and may_open(requested_id)
    ):
        st.session_state["unknown_workspace"] = requested_id
        _hidden_field({})
        return
    if requested_id:
        _hidden_field(parameters)
    else:
        parameters |= dict(parse_qsl(_hidden_field()))
    workspace_id = parameters.get("ws", "")
    if not (_UUID.fullmatch(workspace_id) and may_open(workspace_id)):
        workspace_id = str(uuid.uuid4())
        on_new(workspace_id)
    _set_workspace(workspace_id, parameters)


def switch_workspace(workspace_id: str) -> None:
    """Clear the session and open another workspace; for the `on_click` of a button."""
    st.session_state.clear()
    st.session_state[_REPLACES] = True
    _set_workspace(workspace_id, {})


def unknown_workspace() -> str:
    """Return the workspace in the address that the server does not have, "" where there is none."""
    return str(st.session_state.get("unknown_workspace", ""))


def replace_history_entries() -> None:
    """Take note that the browser can replace entries of its history, and write the address."""
    st.session_state[_REPLACES] = True
    if "workspace" in st.session_state:
        _write_address()


def replaces_history_entries() -> bool:
    """Return whether the browser is known to replace entries of its history."""
    return bool(st.session_state.get(_REPLACES, False))


def take_link() -> str:
    """Return the secret of a shared link that the address has, "" if none, and remove it there."""
    return str(st.query_params.pop("share", ""))


def _hidden_field(values: Mapping[str, str] | None = None) -> str:
    """Draw the hidden field of the page and return its text; `values` replace the text."""
    if values is not None:
        st.session_state[ADDRESS_FIELD] = urlencode(values)
    text = st.sidebar.text_input(
        "What this page shows", key=ADDRESS_FIELD, label_visibility="collapsed"
    )
    return str(text)


def workspace() -> str:
    """Return the id of this visitor's workspace."""
    return str(st.session_state["workspace"])


def workspace_or_none() -> str | None:
    """Return the id of this visitor's workspace, None where the address names an unknown one."""
    return workspace() if "workspace" in st.session_state else None


def selected_id(choice: Choice) -> str:
    """Return the id of the selected data set, run, prediction or source, the window, or ""."""
    return str(st.session_state.get(f"chosen_{choice}", ""))


def choose(choice: Choice, value: str) -> None:
    """Select a data set, run, prediction, source model or window, and write it to the address."""
    if selected_id(choice) != value:
        st.session_state[f"chosen_{choice}"] = value
        _write_address()


def parameter(name: str) -> str:
    """Return a parameter of the address that only one page uses, "" if the address lacks it."""
    return str(st.query_params.get(name, ""))


def address(
    page: str, /, *, heading: str = "", with_choices: bool = True, **parameters: str
) -> str:
    """Return the address of a page of this workspace, relative to the other pages.

    With the choices it has all parameters that `start` would write, because writing removes the
    heading. Without them it is the same during the whole session.
    """
    values = _values() if with_choices else {"ws": workspace()}
    query = urlencode({key: value for key, value in values.items() if value} | parameters)
    return f"{page}?{query}#{quote(heading)}" if heading else f"{page}?{query}"


def trains_on() -> str:
    """Return the id of the data set that the visitor came to the page Train with, "" for none."""
    return str(st.session_state.get("trains_on", ""))


def set_trains_on(dataset: str) -> None:
    """Open the form of the page Train with this data set, "" for no longer."""
    st.session_state["trains_on"] = dataset


def form_key(form: str) -> str:
    """Return the key of the present instance of a form.

    The key changes only by `renew`, so that a double click submits the same key twice.
    """
    return str(st.session_state.setdefault(f"form_{form}", uuid.uuid4().hex))


def renew(form: str) -> None:
    """Start a new instance of a form, whose widgets are empty."""
    st.session_state[f"form_{form}"] = uuid.uuid4().hex


def set_message(text: str, *, tone: Tone = "info", undo: Callable[[], None] | None = None) -> None:
    """Store a message for the top of the page at its next run; `undo` is what its button calls."""
    st.session_state["message"] = (tone, text, undo)


def take_message() -> tuple[Tone, str, Callable[[], None] | None] | None:
    """Return the stored message and remove it."""
    message: tuple[Tone, str, Callable[[], None] | None] | None
    message = st.session_state.pop("message", None)
    return message


def _values() -> dict[str, str]:
    return {"ws": workspace()} | {choice: selected_id(choice) for choice in _CHOICES}


def _set_workspace(workspace_id: str, choices: Mapping[str, str]) -> None:
    st.session_state["workspace"] = workspace_id
    for choice in _CHOICES:
        st.session_state[f"chosen_{choice}"] = choices.get(choice, "")


def _write_address() -> None:
    """Write workspace and choices to the address.

    They are written together, because every write adds an entry to the browser's history. In the
    first run of a session the browser cannot yet replace an entry, so the address is written only
    after the browser's report.
    """
    if not replaces_history_entries():
        return
    present = st.query_params.to_dict()
    other_parameters = {
        key: value for key, value in present.items() if key not in ("ws", *_CHOICES)
    }
    parameters = other_parameters | {key: value for key, value in _values().items() if value}
    if present != parameters:
        st.query_params.from_dict(parameters)
