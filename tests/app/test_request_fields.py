"""Widgets for the fields of a request."""

from streamlit.testing.v1 import AppTest


def page() -> None:
    """A page with a widget for each field that asks for one."""
    from typing import Annotated, Literal

    import streamlit as st
    from pydantic import Field

    from app.components.shared.request_fields import draw_fields
    from bandgap.foundation.requests import Request, Setting

    class Example(Request):
        flag: Annotated[bool, Setting("A flag", "Help.", on_page=True)] = False
        kind: Annotated[Literal["a", "b"], Setting("A kind", "Help.", on_page=True)] = "b"
        n: Annotated[int | None, Field(ge=2), Setting("A count", "Help.", on_page=True)] = None
        share: Annotated[
            float, Field(ge=0.0, le=1.0), Setting("A share", "Help.", on_page=True)
        ] = 0.5
        name: Annotated[str, Setting("A name", "Help.", on_page=True)] = ""
        hidden: Annotated[int, Setting("Not on the page", "Help.")] = 1

    values = draw_fields(Example, key="x")
    st.code(repr(Example(**values)))


def test_widgets_of_every_kind_give_the_request_that_they_show() -> None:
    at = AppTest.from_function(page).run()
    assert not at.exception
    assert at.code[0].value == "Example(flag=False, kind='b', n=None, share=0.5, name='', hidden=1)"
    at.checkbox[0].check()
    at.selectbox[0].set_value("a")
    at.number_input[0].set_value(4)
    at.number_input[1].set_value(0.25)
    at.text_input[0].set_value(" water ")
    at.run()
    assert (
        at.code[0].value == "Example(flag=True, kind='a', n=4, share=0.25, name='water', hidden=1)"
    )
