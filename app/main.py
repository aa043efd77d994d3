"""The dashboard: navigation, the state of the worker, and the frame that every page shares.

The folder of the pages is called `views`, because Streamlit treats a folder called `pages` as its
old multipage mode until the first call of `st.navigation`. A new server would then run the first
requested page without this file.
"""

from functools import partial

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage

from app import session, visitors
from app.components.shared import frame, stores
from app.components.workspaces.browser import keep_history
from app.components.workspaces.workspace_list import unknown_workspace
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.people import open_link
from bandgap.jobs.workspaces import has_workspace

st.set_page_config(
    page_title="bandgap", page_icon=str(frame.WORDMARK), layout="wide", initial_sidebar_state="auto"
)


PAGES = {  # name of the file, title and icon, by section
    "": (
        ("home", "Home", "home"),
        ("data", "Data", "table_view"),
        ("train", "Train", "model_training"),
        ("result", "Result", "task_alt"),
        ("compare", "Compare", "compare_arrows"),
        ("predict", "Predict", "batch_prediction"),
        ("guide", "Guide", "menu_book"),
    ),
    "More": (
        ("sources", "Source models", "hub"),
        ("propose", "Propose", "lightbulb"),
        ("about", "About", "info"),
    ),
}


def navigation() -> StreamlitPage:
    """Return the page of the address. Propose is listed only where runs learned from molecules."""
    workspace = session.workspace_or_none() or session.parameter("ws")
    organic = stores.may_open(workspace) and stores.learned_from_organic(workspace)
    hidden = () if organic else ("propose",)
    return st.navigation(
        {
            section: [
                st.Page(
                    f"views/{name}.py",
                    title=title,
                    icon=f":material/{icon}:",
                    default=name == "home",
                    visibility="hidden" if name in hidden else "visible",
                )
                for name, title, icon in pages
            ]
            for section, pages in PAGES.items()
        }
    )


def draw() -> None:
    """Draw the sidebar, the messages and the page of the address."""
    page = navigation()
    person = visitors.person()
    if person is None:
        st.title("Log in", anchor=False)
        st.button("Log in", type="primary", on_click=st.login)
        if st.query_params:
            st.caption("Open this address again after the login, which leads to Home.")
        return
    if person and (secret := session.take_link()):
        database = stores.whole_library().database
        session.switch_workspace(open_link(database, secret, person) or secret)
    session.start(
        exists=partial(has_workspace, stores.whole_library()),
        may_open=stores.may_open,
        on_new=stores.open_workspace,
    )
    frame.sidebar()
    with st.sidebar:
        keep_history()
    if session.unknown_workspace():
        unknown_workspace()
        return
    if page.title != "Train":
        session.set_trains_on("")
    frame.check_address()
    frame.messages()
    if not stores.may_write():
        st.info("This workspace is shared with you for reading.", icon=":material/visibility:")
    page.run()


try:
    with stores.whole_library().database.kept_open():  # one connection for all that is read
        draw()
except BandgapError as error:
    frame.problem(error)
