"""Parts of the page Compare: figures, differences, settings, parity plots and learning curve."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import downloads, tables, words
from app.components.shared.drawing import figure_with_table, parity_columns
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import heldout_frame, learning_points
from bandgap import plots
from bandgap.evaluation.paired import Figure, PairedDifference
from bandgap.evaluation.run_tables import (
    StoredRun,
    difference_table,
    differences,
    differing_settings,
    learning_table,
    split_flags,
)
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import RunRow

# For each run its difference to the baseline, if it can be computed, and a sentence on it.
Differences = list[tuple[StoredRun, PairedDifference | None, str]]

QUANTITIES: Mapping[Figure, Quantity] = {
    "rmse_eV": Quantity.RMSE,
    "mae_eV": Quantity.MAE,
    "crps_eV": Quantity.CRPS,
}


def flags(runs: Sequence[StoredRun], baseline: StoredRun) -> None:
    """Show why runs cannot be compared directly with the baseline."""
    texts = [text for run in runs if run.id != baseline.id for text in split_flags(run, baseline)]
    if texts:
        lines = "\n".join(f"- {words.escaped(text)}" for text in texts)
        st.warning(lines if len(texts) > 1 else words.escaped(texts[0]), icon=":material/warning:")


def figures(table: pd.DataFrame, pairs: Differences, *, level: float, baseline: str) -> None:
    """Show one row per run, the smallest error first, and offer it with the differences as CSV."""
    ordered = table.sort_values("rmse_eV", ignore_index=True)
    formatted = ordered.assign(
        coverage=100 * ordered["coverage"],
        time_s=[words.duration(s) if np.isfinite(s) else "" for s in ordered["time_s"]],
        memory_MB=[
            words.size(round(1e6 * m)) if np.isfinite(m) else "" for m in ordered["memory_MB"]
        ],
    )
    alt = "Figures of the chosen runs on their held-out structures"
    formatted = formatted.drop(columns="held_out")
    tables.show(
        formatted[_ORDER],
        alt=alt,
        columns=figure_columns(level),
        wraps=tables.has_long_names(formatted["run"]),
    )
    merged = ordered.merge(
        difference_table(pairs).add_prefix("difference_to_baseline_"),
        how="left",
        left_on="run",
        right_on="difference_to_baseline_run",
    ).drop(columns="difference_to_baseline_run")
    comparison = merged.assign(level=level, baseline=baseline)
    downloads.csv_button("Download the comparison (CSV)", lambda: comparison, "comparison.csv")


def figure_columns(level: float) -> dict[str, Any]:
    """Return headers with units, help texts, and widths.

    The name, the error and the interval fit 400 pixels, all columns fit 1280.
    """
    percent = words.percent(level)
    settings: dict[str, Any] = {"run": tables.column("run", tables.NARROW_NAME)}
    for quantity, width in ((Quantity.RMSE, 70), (Quantity.MAE, 62), (Quantity.CRPS, 70)):
        settings[quantity.column] = tables.column(quantity.axis, width, "%.3f", quantity.help)
    for quantity in (Quantity.R2, Quantity.NLL):
        settings[quantity.column] = tables.column(quantity.axis, 43, "%.2f", quantity.help)
    settings["width_eV"] = tables.column("width (eV)", 72, "%.2f", Quantity.WIDTH.help)
    coverage, area = (f"{q.label}: {q.help}" for q in (Quantity.COVERAGE, Quantity.MISCALIBRATION))
    return settings | {
        "coverage": tables.column(
            f"in {percent}", 58, "%.0f %%", f"{words.sentence(coverage)} Here of {percent}."
        ),
        "miscalibration": tables.column("miscal.", 60, "%.3f", words.sentence(area)),
        "time_s": tables.column(
            "time", 78, help="Of the whole transfer on the machine that ran it."
        ),
        "memory_MB": tables.column("memory", 66, help="Peak memory of the process that ran it."),
    }


def difference_view(pairs: Differences, *, figure: Figure, baseline: str) -> None:
    """Show how each run differs from the baseline, and draw the differences with intervals."""
    st.subheader(
        f"Difference to {words.escaped_sentence(baseline)}",
        anchor=False,
        help=_PAIRED_HELP
        + help_link("explanation/which-source-and-method", "Check it on your data"),
    )
    table = difference_table(pairs)
    has_figure = bool(table["difference_eV"].notna().any())
    left_column, right_column = st.columns([2, 3] if has_figure else [4, 1], gap="large")
    with left_column:
        for run, _, text in pairs:
            st.markdown(f"**{words.escaped(run.label)}**: {words.escaped(text)}")
    if has_figure:
        quantity = QUANTITIES[figure]
        with right_column:
            figure_with_table(
                plots.difference_figure,
                table,
                quantity=quantity,
                key="differences",
                alt=f"Differences in {quantity.label} to {baseline} with 95 % intervals",
                caption=_DIFFERENCE_CAPTION,
            )


@st.cache_data(max_entries=64, show_spinner=False)
def cached_differences(
    key: tuple[str, ...], figure: Figure, _runs: Sequence[StoredRun], _baseline: StoredRun
) -> Differences:
    """Return the paired differences; `key`, ids of baseline and runs, is the cache's key."""
    return differences(_runs, _baseline, figure)


def settings_view(runs: Sequence[StoredRun]) -> None:
    """Show the settings that differ."""
    table = differing_settings(runs)
    if table.empty:
        st.caption("The runs have the same settings, as far as they share any.")
        return
    alt = "Settings in which the chosen runs differ"
    downloads.table_with_csv(table, "settings.csv", alt=alt, rows=100)
    st.caption(
        "Settings that only one of the methods has are left out; each run's manifest.json has them."
    )


def parity_view(runs: Sequence[StoredRun], level: float) -> None:
    """Draw predicted against known gaps of every run with the same axes."""
    tables_of_runs = [heldout_frame(run.heldout, level) for run in runs]
    ends = plots.parity_ends(*parity_columns(pd.concat(tables_of_runs)))
    across = 2 if len(runs) in (2, 4) else 3
    for start in range(0, len(runs), across):
        stop = start + across
        for column, run, rows in zip(
            st.columns(across, gap="medium"),
            runs[start:stop],
            tables_of_runs[start:stop],
            strict=False,
        ):
            table = rows[["id", "gap_eV", "mean_eV", "lower_eV", "upper_eV", "formula"]]
            with column:
                st.markdown(f"**{words.escaped(run.label)}**")
                figure_with_table(
                    plots.parity,
                    table,
                    args=parity_columns(table),
                    ids=table["id"].tolist(),
                    ends=ends,
                    key=f"parity-{run.id}",
                    alt=f"Predicted against known gaps of {run.label}",
                    caption=_PARITY_CAPTION,
                )


def learning_view(runs: Mapping[str, RunRow], baseline: StoredRun, *, figure: Figure) -> None:
    """Draw error against the number of labelled structures, if it differs between the runs."""
    table = learning_table(learning_points(runs, baseline), figure)
    if table.empty:
        st.caption(
            "No method has been trained on these data with two numbers of labelled structures yet. "
            "Train again with another number to see whether more labels would help."
        )
        return
    quantity = QUANTITIES[figure]
    figure_with_table(
        plots.learning_figure,
        table,
        quantity=quantity,
        key="learning",
        alt=f"{quantity.label} against the number of labelled structures learned from",
        caption=f"All finished runs on {words.escaped(baseline.data)}, each on its own held-out "
        "structures: a line that still falls says that more labels would help; bars are the "
        "smallest and largest of several runs.",
    )


# A narrow window shows the first columns: error, coverage and width.
_ORDER = [
    "run",
    "rmse_eV",
    "coverage",
    "width_eV",
    "mae_eV",
    "crps_eV",
    "r2",
    "nll",
    "miscalibration",
    "time_s",
    "memory_MB",
]
_PAIRED_HELP = (
    "Paired bootstrap: both runs are measured on the same crystals, resampled 2,000 times. The "
    "interval says what another test set would give; another training set or seed may differ by "
    "more."
)
_DIFFERENCE_CAPTION = (
    "Left of zero is better than the baseline; a bar that crosses zero is a difference that this "
    "test set cannot show. Each interval is for one comparison: of many comparisons about one in "
    "twenty misses."
)
_PARITY_CAPTION = "Points on the line are right; diamonds are gaps outside their interval."
