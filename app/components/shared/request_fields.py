"""Widgets for the fields of a request type, so that a new setting needs no change of a page."""

from typing import Any

import streamlit as st

from bandgap.foundation.requests import Request, RequestField


def draw_fields(request_type: type[Request], *, key: str) -> dict[str, Any]:
    """Draw a widget for each field with `Setting.on_page` and return the values by name.

    `key` is the prefix of the keys of the widgets.
    """
    fields = [field for field in request_type.fields() if field.setting.on_page]
    return {field.name: _widget(field, key=f"{key}-{field.name}") for field in fields}


def _widget(field: RequestField, *, key: str) -> Any:
    label = field.setting.label
    help_text = field.setting.help
    if field.kind == "flag":
        return st.checkbox(label, value=bool(field.default), help=help_text, key=key)
    if field.kind == "choice":
        options = list(field.choices)
        return st.selectbox(
            label, options, options.index(str(field.default)), help=help_text, key=key
        )
    if field.kind == "integer":
        low = None if field.minimum is None else int(field.minimum)
        high = None if field.maximum is None else int(field.maximum)
        value = st.number_input(label, low, high, field.default, step=1, help=help_text, key=key)
        return None if value is None else int(value)
    if field.kind == "number":
        return st.number_input(
            label, field.minimum, field.maximum, field.default, help=help_text, key=key
        )
    text = st.text_input(label, value=str(field.default or ""), help=help_text, key=key).strip()
    return text or field.default
