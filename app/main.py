"""The dashboard: navigation, the state of the worker, and the frame that every page shares.

The folder of the pages is called `views`, because Streamlit treats a folder called `pages` as its
old multipage mode until the first call of `st.navigation`. A new server would then run the first
requested page without this file.
"""

from functools import partial

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage

from app import session
from app.components.shared import frame, stores
from app.components.workspaces.browser import browser_memory
from app.components.workspaces.workspace_list import unknown_workspace
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.workspaces import has_workspace

st.set_page_config(
    page_title="bandgap", page_icon=str(frame.WORDMARK), layout="wide", initial_sidebar_state="auto"
)


def navigation() -> StreamlitPage:
    """Return the page of the address. Propose is listed only where runs learned from molecules."""
    workspace = session.workspace_or_none() or session.parameter("ws")
    return st.navigation(
        {
            "": [
                st.Page("views/home.py", title="Home", icon=":material/home:", default=True),
                st.Page("views/data.py", title="Data", icon=":material/table_view:"),
                st.Page("views/train.py", title="Train", icon=":material/model_training:"),
                st.Page("views/result.py", title="Result", icon=":material/task_alt:"),
                st.Page("views/compare.py", title="Compare", icon=":material/compare_arrows:"),
                st.Page("views/predict.py", title="Predict", icon=":material/batch_prediction:"),
                st.Page("views/guide.py", title="Guide", icon=":material/menu_book:"),
            ],
            "More": [
                st.Page("views/sources.py", title="Source models", icon=":material/hub:"),
                st.Page(
                    "views/propose.py",
                    title="Propose",
                    icon=":material/lightbulb:",
                    visibility="visible" if stores.learned_from_organic(workspace) else "hidden",
                ),
                st.Page("views/about.py", title="About", icon=":material/info:"),
            ],
        }
    )


def draw() -> None:
    """Draw the sidebar, the messages and the page of the address."""
    page = navigation()
    session.start(exists=partial(has_workspace, stores.library()), on_new=stores.open_workspace)
    frame.sidebar()
    with st.sidebar:
        browser_memory(redraw=page.title == "Home" or bool(session.unknown_workspace()))
    if session.unknown_workspace():
        unknown_workspace()
        return
    if page.title != "Train":
        session.set_trains_on("")
    frame.check_address()
    frame.messages()
    page.run()


try:
    with stores.library().database.kept_open():  # one connection for all that is read
        draw()
except BandgapError as error:
    frame.problem(error)
