"""The dashboard: navigation, the state of the worker, and the frame that every page shares."""

import session
import streamlit as st
from components import frame

from bandgap.errors import BandgapError

st.set_page_config(page_title="bandgap", layout="wide", initial_sidebar_state="auto")

page = st.navigation(
    {
        "Data": [st.Page("pages/data.py", title="Data", icon=":material/table_view:", default=True)],
        "Models": [st.Page("pages/train.py", title="Train", icon=":material/model_training:")],
        "Results": [
            st.Page("pages/posterior.py", title="Posterior", icon=":material/ssid_chart:"),
            st.Page("pages/predict.py", title="Predict", icon=":material/batch_prediction:"),
        ],
    }
)
session.start()
try:
    frame.sidebar()
    frame.messages()
except BandgapError as error:
    frame.problem(error)
else:
    page.run()
