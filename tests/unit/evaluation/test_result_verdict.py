"""The verdict on a run: one test for each rule, and its false alarms by simulation."""

import re
from dataclasses import replace

import numpy as np
import pytest

from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.result_verdict import (
    far_rows,
    rank_correlation,
    result_verdict,
)
from bandgap.jobs.next_step import OF_VERDICT, Facts, next_step
from bandgap.predictions.gap_distribution import GapDistribution
from bandgap.predictions.table import LEVELS
from tests.unit.evaluation.test_paired import normal_heldout

AGREED = {"diagnostics": {"rhat": {"tau": 1.01, "predictions": 1.02}}}
MEAN = {"tested": {"mean_gap_rmse_eV": 1.0}}


def heldout_of(n=100, *, error=0.15, stated=None, spread=1.0, seed=0) -> HeldOut:
    """Return gaps with this standard deviation, and normal errors with stated sd `stated`."""
    generator = np.random.default_rng(seed)
    gaps = 3.0 + spread * generator.standard_normal(n)
    errors = error * generator.standard_normal(n)
    return with_errors(gaps, errors, stated=error if stated is None else stated)


def with_errors(gaps, errors, *, stated) -> HeldOut:
    """Return predictions with these errors and normal intervals of standard deviation `stated`."""
    return normal_heldout(errors, stated, gaps=gaps)


def test_good_run_says_for_what_with_error_intervals_and_structures_far_off():
    heldout = heldout_of(91, error=0.15)
    verdict = result_verdict(heldout, AGREED | MEAN)
    assert (verdict.state, verdict.word) == ("good", "Good")
    errors = np.abs(heldout.errors_eV)
    typical = np.quantile(errors, 0.95)
    assert 0.25 < typical <= 0.3
    assert verdict.sentence.startswith(
        "Good for ranking and for gaps, which are right within 0.3 eV: RMSE 0.1"
    )
    assert (
        "eV (1.00 eV by the mean gap) on 91 held-out structures; 95 % intervals contain 9"
        in verdict.sentence
    )


def test_error_below_a_hundredth_of_the_spread_is_not_good():
    verdict = result_verdict(heldout_of(91, error=0.005), AGREED | MEAN)
    assert (verdict.state, verdict.word) == ("fair", "Too small an error")


def test_fewer_than_twenty_structures_are_not_judged():
    verdict = result_verdict(heldout_of(19), AGREED | MEAN)
    assert (verdict.state, verdict.word, verdict.curve) == ("unknown", "Cannot be judged", None)
    assert result_verdict(heldout_of(20), AGREED | MEAN).state != "unknown"


@pytest.mark.parametrize("error", [0.97, 1.4])
def test_run_no_better_than_the_mean_is_not_usable(error):
    verdict = result_verdict(heldout_of(100, error=error), AGREED | MEAN)
    assert (verdict.state, verdict.word) == ("poor", "Not usable")
    assert verdict.sentence.startswith("Not clearly better than the mean gap: RMSE ")
    assert "(1.00 eV by the mean gap)" in verdict.sentence


def test_gain_within_two_standard_errors_is_no_gain():
    gaps = np.concatenate([np.zeros(29), [10.0]])
    errors = np.concatenate([np.full(29, 0.5), [0.0]])  # better by one structure alone
    constant = float(np.sqrt(np.mean((gaps - gaps.mean()) ** 2)))
    verdict = result_verdict(
        with_errors(gaps, errors, stated=0.5), {"tested": {"mean_gap_rmse_eV": constant}}
    )
    assert verdict.state == "poor"


def test_chains_that_have_not_agreed_are_named_first():
    manifest = {"diagnostics": {"rhat": {"tau": 1.2, "c1": 1.0}}} | MEAN
    verdict = result_verdict(heldout_of(), manifest)
    assert (verdict.state, verdict.word) == ("fair", "Chains not agreed")
    assert "the chains have not agreed (R-hat 1.20)" in verdict.sentence
    assert not verdict.chains_agree
    missing = {"diagnostics": {"rhat": {"tau": None}}} | MEAN  # NaN in the manifest
    assert not result_verdict(heldout_of(), missing).chains_agree


@pytest.mark.parametrize(("stated", "side"), [(0.08, "too narrow"), (0.4, "too wide")])
def test_intervals_that_chance_does_not_explain_are_named(stated, side):
    verdict = result_verdict(heldout_of(stated=stated), AGREED | MEAN)
    assert (verdict.state, verdict.word) == ("fair", f"Intervals {side}")
    assert re.search(rf" (but|and) those of \d+ to \d+ % are {side}", verdict.sentence)


def test_calibrated_runs_are_rarely_called_miscalibrated():
    # 60 runs at a false-alarm rate of 5 %: more than 8 alarms have a probability of 0.4 %
    words = [result_verdict(heldout_of(60, seed=seed), AGREED | MEAN).word for seed in range(60)]
    assert sum(word.startswith("Intervals") for word in words) <= 8
    assert words.count("Good") >= 50


def test_intervals_of_a_calibrator_are_judged_in_place_of_the_original_ones():
    narrow = heldout_of(stated=0.08)
    verdict = result_verdict(narrow, AGREED | MEAN, calibrated=heldout_of(50))
    assert verdict.word == "Good"
    of_few = result_verdict(narrow, AGREED | MEAN, calibrated=heldout_of(10))
    assert of_few.word == "Intervals too narrow"


def test_error_of_more_than_half_of_the_spread_is_not_for_single_gaps():
    verdict = result_verdict(heldout_of(error=0.6), AGREED | MEAN)
    assert (verdict.state, verdict.word) == ("fair", "Use with care")
    assert "not for single gaps" in verdict.sentence


def test_structure_far_off_is_counted_and_found():
    heldout = heldout_of(60)
    errors = heldout.errors_eV.copy()
    errors[7] = 2.0
    shifted = with_errors(heldout.gaps_eV, errors, stated=0.15)
    assert far_rows(shifted)[0] == 7
    assert "structure is far off" in result_verdict(shifted, AGREED | MEAN).sentence


@pytest.mark.parametrize(
    ("p_of_metals", "error_eV", "state"),
    [(0.95, 0.2, "good"), (0.95, 1.5, "fair"), (0.4, 0.2, "fair"), (0.4, 1.5, "poor")],
)
def test_metals_and_gaps_of_semiconductors_have_a_verdict_each(p_of_metals, error_eV, state):
    n = 120
    rng = np.random.default_rng(4)
    is_metal = np.arange(n) % 3 > 0
    gaps = np.where(is_metal, 0.0, rng.uniform(1.0, 4.0, n))
    p_metal = np.where(is_metal, p_of_metals, 0.05)
    mean = (1 - p_metal) * np.where(is_metal, 2.0, gaps + rng.normal(0.0, error_eV, n))
    spread = np.where(is_metal, 1.0, error_eV)
    distribution = GapDistribution(
        (mean / (1 - p_metal))[None], np.broadcast_to(spread, (1, n)), p_metal
    )
    plain = with_errors(gaps, mean - gaps, stated=0.3).predictions
    heldout = HeldOut(
        replace(plain, p_metal=p_metal, quantiles_new=distribution.quantiles(LEVELS)), gaps
    )
    verdict = result_verdict(heldout, AGREED | MEAN)
    assert verdict.state == state
    assert "Metal or not: right in" in verdict.sentence and "far off" not in verdict.sentence
    few_semiconductors = np.r_[np.flatnonzero(is_metal), np.flatnonzero(~is_metal)[:5]]
    verdict_on_few = result_verdict(heldout.rows(few_semiconductors), AGREED | MEAN)
    assert verdict_on_few.state != "poor"
    assert (verdict_on_few.state == "unknown") == (state == "poor")
    assert far_rows(heldout).size == 0


def test_rank_correlation_is_that_of_ranks():
    gaps = np.array([1.0, 2.0, 3.0, 10.0])
    assert rank_correlation(with_errors(gaps, np.array([0, 0, 0, 90.0]), stated=1)) == 1.0
    constant = with_errors(gaps, 5.0 - gaps, stated=1)
    assert rank_correlation(constant) == 0.0


@pytest.mark.parametrize(
    ("changed", "step"),
    [
        ({"can_refit": False}, "predict"),
        ({}, "refit"),
        ({"stated": 0.08}, "calibrate"),
        ({"stated": 0.08, "can_calibrate": False}, "refit"),
        ({"rhat": 1.3}, "more draws"),
        ({"rhat": 1.3, "can_add_draws": False}, "refit"),
        ({"error": 1.2}, "train"),
    ],
    ids=str,
)
def test_next_step_follows_the_rules(changed, step):
    options = {"can_add_draws": True, "can_calibrate": True, "can_refit": True}
    options |= {name: value for name, value in changed.items() if name in options}
    heldout = heldout_of(error=changed.get("error", 0.15), stated=changed.get("stated"))
    manifest = {"diagnostics": {"rhat": {"tau": changed.get("rhat", 1.0)}}} | MEAN
    facts = Facts(run="finished", verdict=result_verdict(heldout, manifest), **options)
    assert next_step(facts) is OF_VERDICT[step]
