"""The tab Intervals: whether they have the stated coverage, and the calibrator."""

import streamlit as st

from app.components.result.calibrator_view import calibrator_view
from app.components.result.run_result import RunResult
from app.components.shared import words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import choose_interval
from bandgap import plots
from bandgap.evaluation.calibration import CoverageCurve, chance_range
from bandgap.evaluation.calibrators import calibrated_part, measured_part
from bandgap.evaluation.curve_verdict import curve_verdict
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.reliability import coverage_of, coverage_table, share_inside, spread_table
from bandgap.foundation.quantities import Quantity
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.predictions.interval_kinds import IntervalKind


def intervals_view(result: RunResult) -> None:
    """Draw coverage and spread of one kind of interval, and the calibrator.

    With a calibrator the figures are of the structures that it was not fitted on.
    """
    calibrator = result.calibrator
    heldout = result.heldout
    before = None
    default: IntervalKind = "prediction"
    if calibrator is not None:
        before = measured_part(heldout, calibrator)
        heldout = calibrated_part(heldout, calibrator)
        default = calibrator.interval
    level, kind, available = choose_interval(
        heldout.predictions.conformal, key=f"kind-{default}", default=default
    )
    if available:
        curve = coverage_of(heldout, kind)
        inside = share_inside(heldout, level, kind)
        has_metals = heldout.predictions.p_metal is not None and kind == "prediction"
        text = coverage_sentence(curve, level, kind, inside=inside if has_metals else None)
        st.markdown(text + (semiconductors_sentence(heldout, level) if has_metals else ""))
        _figures(curve, heldout, before, level=level, kind=kind)
    calibrator_view(result)


def _figures(
    curve: CoverageCurve,
    heldout: HeldOut,
    before: HeldOut | None,
    *,
    level: float,
    kind: IntervalKind,
) -> None:
    """Draw coverage against level, also without the calibrator (`before`), and the spread."""
    table = coverage_table(curve)
    first = table
    area = f"{curve.miscalibration_area:.3f}"
    if before is not None:
        as_trained = coverage_of(before, "prediction" if kind == "conformal" else kind)
        first = coverage_table(as_trained)
        area += f", as trained {as_trained.miscalibration_area:.3f}"
    left_column, right_column = st.columns(2, gap="medium")
    with left_column:
        st.markdown(
            "**Do the intervals have the stated coverage?**",
            help=f"{Quantity.COVERAGE.help} {Quantity.LEVEL.help}"
            + help_link("explanation/calibration", "What is measured"),
        )
        figure(
            plots.coverage_figure,
            first,
            table=table,
            level=level,
            after=None if before is None else table,
            key="coverage",
            alt=f"Share of gaps in their {kind} interval against its level, with chance",
            caption="Below the diagonal: too narrow; above: too wide; in the band: chance. "
            f"Miscalibration area {area}.",
        )
    with right_column:
        st.markdown(
            "**Are errors larger where the model says so?**",
            help=Quantity.SD.help + help_link("explanation/intervals", "Prediction intervals"),
        )
        spread = spread_table(heldout)
        figure(
            plots.spread_figure,
            spread,
            table=spread,
            key="spread",
            alt="Error by group of predicted standard deviation, with the range of chance",
            caption="One point: this run predicts the same spread for all crystals."
            if len(spread) == 1
            else "Points on the line have the error that was predicted; grey bars are chance.",
        )


def coverage_sentence(
    curve: CoverageCurve, level: float, kind: IntervalKind, *, inside: float | None = None
) -> str:
    """Return the coverage at a level, the range of chance, and the verdict on the whole curve.

    With metals the curve counts central intervals of the PIT, and `inside` is the share of the gaps
    in their interval.
    """
    nearest = int(abs(curve.levels - level).argmin())
    share = float(curve.coverages[nearest])
    low, high = (float(end[0]) for end in chance_range(curve.n, level))
    share_text, low_text, high_text = words.percents(share, low, high)
    text = (
        f"**{share_text if inside is None else words.percent(inside)}** of "
        f"{words.count(curve.n, 'known gap')} fall in their {words.percent(level)} {kind} interval"
    )
    chance = f" (by chance {low_text} to {high_text})."
    text += (
        chance
        if inside is None
        else (
            ". With metals an interval that begins at zero may contain more than its level; by the "
            f"PIT it is {share_text}{chance}"
        )
    )
    if kind == "credible":
        return f"{text} A credible interval is that of the mean: single gaps scatter more."
    if curve_verdict(curve).deviates:
        return f"{text} The curve is farther from the diagonal than chance explains."
    return f"{text} The whole curve lies within what chance explains."


def semiconductors_sentence(heldout: HeldOut, level: float) -> str:
    """Return how many semiconductors are in their prediction interval, and what to read besides."""
    is_semiconductor = heldout.gaps_eV > ZERO_EV
    if not is_semiconductor.any():
        return ""
    share = share_inside(heldout.rows(is_semiconductor.nonzero()[0]), level, "prediction")
    return (
        f" Of the {words.count(int(is_semiconductor.sum()), 'semiconductor')} "
        f"**{words.percent(share)}** do: to find semiconductors, read the probability of a metal, "
        "not the interval."
    )
