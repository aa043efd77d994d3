"""Guide: the user's part of the documentation, without access to the internet."""

import streamlit as st

from app import session
from app.components.guide.documents import NAMES, read_document
from app.components.guide.guide_view import document_list, document_view
from app.components.shared import frame, words


def page() -> None:
    name = session.parameter("page")
    if name in NAMES:
        document_view(read_document(name))
        return
    frame.heading("Guide", "How to use bandgap, what its numbers mean, and what its files contain.")
    if name:
        st.warning(f"The Guide has no page {words.escaped(name)}. These are all pages.")
    document_list()


page()
