"""Figures of the page Calibration, each with its table."""

import streamlit as st

from app.components.shared.drawing import figure_with_table
from app.components.shared.guide_links import help_link
from bandgap import plots
from bandgap.evaluation.calibration import CoverageCurve
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.reliability import (
    coverage_table,
    element_table,
    formula_table,
    pit_table,
    spread_table,
    width_table,
)
from bandgap.foundation.quantities import Quantity
from bandgap.predictions.interval_kinds import IntervalKind


def coverage_view(
    curve: CoverageCurve, *, before: CoverageCurve | None, level: float, kind: IntervalKind
) -> None:
    """Draw coverage against level; `before` is the curve without a calibrator, if any."""
    st.markdown(
        "**Do the intervals have the stated coverage?**",
        help=f"{Quantity.COVERAGE.help} {Quantity.LEVEL.help}"
        + help_link("explanation/calibration", "What is measured"),
    )
    table = coverage_table(curve)
    first = table if before is None else coverage_table(before)
    area = f"Miscalibration area {curve.miscalibration_area:.3f}"
    area += "" if before is None else f", as trained {before.miscalibration_area:.3f}"
    figure_with_table(
        plots.coverage_figure,
        table,
        args=(first,),
        level=level,
        after=None if before is None else table,
        key="coverage",
        alt=f"Share of gaps in their {kind} interval against its level, with what chance allows",
        caption="Below the diagonal intervals are too narrow, above it too wide; inside the band "
        f"it may be chance. {area}.",
    )


def pit_view(heldout: HeldOut) -> None:
    """Draw the PIT histogram of the prediction intervals."""
    st.markdown(
        "**Where the known gaps fall in what was predicted**",
        help=Quantity.PIT.help + help_link("explanation/calibration", "What is measured"),
    )
    table = pit_table(heldout)
    figure_with_table(
        plots.pit_figure,
        table,
        key="pit",
        alt="PIT histogram of the prediction intervals with the range of chance",
        caption="Flat is calibrated; a hill in the middle is too wide, high ends are too narrow, a "
        "slope is a shift.",
    )


def spread_views(heldout: HeldOut, level: float, kind: IntervalKind) -> None:
    """Draw width against error, and error by group of predicted standard deviation."""
    spread = spread_table(heldout)
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        st.markdown("**Do wide intervals belong to large errors?**")
        table = width_table(heldout, level, kind)
        figure_with_table(
            plots.width_figure,
            table,
            key="width",
            alt=f"Absolute error against width of the {kind} interval",
            caption="Above the line the gap is outside. "
            + (
                _ONE_WIDTH
                if len(spread) == 1
                else "A model with good uncertainties has its largest errors on the right."
            ),
        )
    with right_column:
        st.markdown(
            "**Is the predicted spread the real one?**",
            help=Quantity.SD.help + help_link("explanation/intervals", "Prediction intervals"),
        )
        figure_with_table(
            plots.spread_figure,
            spread,
            key="spread",
            alt="Error by group of predicted standard deviation, with the range of chance",
            caption=_ONE_SPREAD
            if len(spread) == 1
            else f"{len(spread)} groups of equal size by predicted standard deviation: points on "
            "the line have the error that was predicted, grey bars are chance.",
        )


def slices(heldout: HeldOut, level: float, kind: IntervalKind) -> None:
    """Draw coverage by element or by formula, with counts."""
    st.subheader("For which crystals", anchor=False)
    by = (
        st.segmented_control(
            "Slices by", ["element", "formula"], default="element", key="slices-by"
        )
        or "element"
    )
    table = (element_table if by == "element" else formula_table)(heldout, level, kind)
    figure_with_table(
        plots.slices_figure,
        table,
        level=level,
        key="slices",
        alt=f"Coverage of the {kind} interval by {by}, with counts and the range of chance",
        caption="Counts are in brackets; a diamond left of its grey bar is a kind of crystal "
        "whose intervals are too narrow. "
        f"{'A crystal counts for every element that it contains.' if by == 'element' else _RARE}",
    )


_ONE_WIDTH = (
    "This run gives all crystals intervals of the same width: it does not say where errors are "
    "larger."
)
_ONE_SPREAD = (
    "One point, as this run predicts the same spread for all crystals; the grey bar is chance."
)
_RARE = "Formulas of only one crystal are together in one row."
