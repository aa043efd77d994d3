"""Predictions as a table beside their figure; level and kind of interval come from what is stored, by no job."""

import numpy as np
import pandas as pd
import streamlit as st

from bandgap import plots
from bandgap.conformal import ConformalScores, available, too_few
from bandgap.jobs.rows import RunRow
from bandgap.predictions import INTERVAL_KINDS, NEGATIVE_END_NOTE, IntervalKind, Predictions
from bandgap.quantities import Quantity
from components import frame, tables, words

KINDS: dict[IntervalKind, str] = {
    "prediction": "prediction interval (a new crystal's gap falls in it with {level} probability)",
    "credible": "credible interval of the mean (where the mean lies; more of the same data narrow it; {level})",
    "conformal": "conformal interval (rests on {held_back}, no model assumption: the gap of another crystal like them "
    "falls in it with {level} probability)",
}
SHOWN = ["id", "status", "mean_eV", "lower_eV", "upper_eV", "note", "formula", "sd_eV", "file"]


def prediction_view(predictions: Predictions, *, run: RunRow, name: str) -> None:
    """Draw level and kind, the table, the figure and the download."""
    left, right = st.columns([2, 3], gap="large", vertical_alignment="center")
    level = left.slider("Level", 50, 99, 95, format="%d %%", help="Probability that the interval states.") / 100
    kinds = [kind for kind in INTERVAL_KINDS if kind != "conformal" or predictions.conformal is not None]
    kind: IntervalKind = (
        right.segmented_control("Interval", kinds, default="prediction", key="interval-kind", help=_KIND_HELP)
        or "prediction"
    )
    right.caption(kind_sentence(kind, level, predictions.conformal))
    if kind == "conformal" and (short := too_few(len(available(predictions.conformal)), level=level)):
        st.warning(short, icon=":material/warning:")
        return
    table = predictions.to_frame(level, kind)
    st.markdown(summary(table))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        shown = display_frame(table)
        st.dataframe(
            shown,
            hide_index=True,
            placeholder="",
            height=tables.height(shown),
            column_config=column_settings(),
        )
        st.download_button(
            "Download the predictions (CSV)",
            data=lambda: predictions.to_csv(level=level, kind=kind).encode(),
            file_name=f"predictions-{run.id[:8]}.csv",
            mime="text/csv",
            on_click="ignore",
        )
    with right:
        values = {key: table[f"{key}_eV"].to_numpy() for key in ("mean", "lower", "upper")}
        fig = plots.intervals(
            values["mean"],
            values["lower"],
            values["upper"],
            ids=table["id"].tolist(),
            unusual=(table["status"] == "warning").to_numpy(),
        )
        frame.figure(fig, key="intervals", alt=f"Predicted gaps of {name} with their intervals", caption=FIGURE_CAPTION)
    if np.nanmin(values["lower"], initial=0.0) < 0:
        st.caption(NEGATIVE_END_NOTE)


def kind_sentence(kind: IntervalKind, level: float, held_back: ConformalScores | None) -> str:
    """Say what an interval of this kind states."""
    crystals = words.count(len(held_back or ()), "held-back crystal")
    return words.sentence(KINDS[kind].format(level=words.percent(level), held_back=crystals)) + "."


def summary(table: pd.DataFrame) -> str:
    """Say how many structures were predicted, how many are unusual and how many refused."""
    count = table["status"].value_counts()
    predicted = len(table) - int(count.get("refused", 0))
    parts = [f"**{words.count(predicted, 'structure')} predicted**"]
    if count.get("warning", 0):
        parts.append(f"{count['warning']:,} of them with a warning")
    if count.get("refused", 0):
        parts.append(f"{count['refused']:,} refused")
    return "; ".join(parts) + "."


def display_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as shown: one note a row from domain and problem, refused rows last."""
    notes = [
        " ".join(text for text in (problem, domain if domain != "ok" else "") if text)
        for problem, domain in zip(table["problem"], table["domain"], strict=True)
    ]
    shown = table.assign(note=notes)
    return shown.loc[(shown["status"] == "refused").sort_values(kind="stable").index, SHOWN]


def column_settings() -> dict[str, object]:
    """Return headers with units; the note is wide."""
    return tables.columns(SHOWN) | {
        "mean_eV": st.column_config.NumberColumn("gap (eV)", help=Quantity.MEAN.help, format="%.2f"),
        "lower_eV": st.column_config.NumberColumn("from (eV)", help=Quantity.LOWER.help, format="%.2f"),
        "upper_eV": st.column_config.NumberColumn("to (eV)", help=Quantity.UPPER.help, format="%.2f"),
        "id": st.column_config.Column(Quantity.ID.axis, help=Quantity.ID.help, width=130),
        "note": st.column_config.Column("what to mind", width="medium"),
    }


FIGURE_CAPTION = "Long bars are structures of which the model knows little; diamonds carry a warning in the table."
_KIND_HELP = (
    "A third kind, conformal, is offered for runs that held crystals back for it (page Train, More settings). "
    + Quantity.CONFORMAL.help
)
