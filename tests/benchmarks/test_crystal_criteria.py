"""Criteria of the benchmark on crystals: best method against best peer, and the proposed method."""

import pytest

from bandgap.runs.compared_fits import ComparedFit
from benchmarks.commands.crystals import print_criteria
from benchmarks.crystal_criteria import best_of_both, proposed

N = 100
RMSE = {
    "stacking": 0.205,
    "gaussian_process": 0.2,
    "Magpie, random forest": 0.5,
    "MBTR, kernel ridge": 0.4,
}
CRPS = {
    "stacking": 0.102,
    "gaussian_process": 0.11,
    "Magpie, random forest": 0.2,
    "MBTR, kernel ridge": 0.3,
}


def fit(name: str, seed: int = 0, *, coverage: float = 0.94, **figures: float) -> ComparedFit:
    all_figures = {"rmse_eV": RMSE[name], "crps_eV": CRPS[name], "coverage_95": coverage} | figures
    return ComparedFit(name, N, seed, all_figures, 1.0, made_of={})


FITS = [fit(name) for name in RMSE]
ERRORS = {(name, N): {0: {"a": error, "b": -error, "c": error}} for name, error in RMSE.items()}
SCORES = {(name, N): {0: {"a": score, "b": score, "c": score}} for name, score in CRPS.items()}
VALUES = {"rmse_eV": ERRORS, "crps_eV": SCORES}


def test_best_method_is_compared_with_best_peer_by_each_figure(capsys) -> None:
    """All structures have the same absolute error, so that every resampling is equal."""
    print_criteria(FITS, VALUES, method="stacking")
    lines = capsys.readouterr().out.splitlines()
    resamplings = "(95 % of 2,000 resamplings of the test structures:"
    assert lines[0] == (
        "n = 100: gaussian_process minus MBTR, kernel ridge, RMSE: "
        f"-0.200 eV {resamplings} -0.200 to -0.200)."
    )
    assert lines[1] == (
        "n = 100: stacking minus Magpie, random forest, CRPS: "
        f"-0.098 eV {resamplings} -0.098 to -0.098)."
    )


def test_proposed_method_is_compared_with_the_best_of_the_others() -> None:
    comparison = proposed(FITS, N, method="stacking", values_by_fit=VALUES)
    assert comparison is not None
    assert comparison.near
    for figure, percent in (("rmse_eV", 2.5), ("crps_eV", -7.27)):
        assert comparison.above[figure] == (pytest.approx(percent, abs=0.01), "gaussian_process")


@pytest.mark.parametrize(
    ("coverage", "covers"), [(0.929, False), (0.93, True), (0.97, True), (0.971, False)]
)
def test_coverage_is_compared_with_both_limits(coverage: float, covers: bool) -> None:
    fits = [fit("stacking", seed, coverage=coverage) for seed in (0, 1)]
    fits.append(fit("gaussian_process"))
    comparison = proposed(fits, N, method="stacking", values_by_fit=VALUES)
    assert comparison is not None
    assert comparison.covers == covers


def test_best_of_all_can_be_a_peer() -> None:
    fits = [fit("stacking"), fit("MBTR, kernel ridge", rmse_eV=0.1)]
    comparison = proposed(fits, N, method="stacking", values_by_fit=VALUES)
    assert comparison is not None
    assert not comparison.near
    percent, best = comparison.above["rmse_eV"]
    assert best == "MBTR, kernel ridge"
    assert percent == pytest.approx(105.0)


def test_difference_without_values_of_all_splits_is_not_available(capsys) -> None:
    two_splits = [*FITS, *(fit(name, 1) for name in RMSE)]
    best = best_of_both(two_splits, SCORES, figure="crps_eV", n=N)
    assert best is not None
    assert best.difference is None
    print_criteria(FITS, {**VALUES, "crps_eV": {}}, method="stacking")
    assert capsys.readouterr().out.splitlines()[1] == (
        "n = 100: stacking minus Magpie, random forest, CRPS: "
        "not available, because values of single structures are missing."
    )


def test_errors_of_other_splits_are_not_used() -> None:
    """An earlier call with more seeds can leave such errors."""
    more = {key: {**by_seed, 1: {"a": len(key[0]), "b": 9.0}} for key, by_seed in ERRORS.items()}
    assert best_of_both(FITS, more, figure="rmse_eV", n=N) == best_of_both(
        FITS, ERRORS, figure="rmse_eV", n=N
    )
