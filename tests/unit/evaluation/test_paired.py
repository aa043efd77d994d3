"""Held-out structures and paired differences: exact cases, known distributions, stated false-alarm
rates.
"""

import numpy as np
import pytest
from scipy.stats import norm

from bandgap.evaluation import paired
from bandgap.evaluation.heldout import HeldOut, crps_each, figures_at, load_heldout
from bandgap.evaluation.metrics import crps_gaussian
from bandgap.evaluation.paired import MIN_COMMON, common_rows, paired_difference
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.predictions.store import save_predictions
from bandgap.predictions.table import LEVELS, Predictions

N = 400
GAPS = np.random.default_rng(5).normal(3.0, 1.0, N)


def noise(seed, sd, mean=0.0):
    """Errors (N,) in eV."""
    return np.random.default_rng(seed).normal(mean, sd, N)


def normal_heldout(errors, sd=0.3, *, gaps=GAPS, ids=None, formulas=None):
    """Held-out structures with normal predictive distributions about gap + error."""
    n = len(gaps)
    mean = gaps + errors
    spread = np.broadcast_to(np.asarray(sd, dtype=float), (n,)).copy()
    names = tuple(ids or (f"s{k:03d}" for k in range(n)))
    blank = ("",) * n
    quantiles = mean + spread * norm.ppf(LEVELS)[:, None]
    predictions = Predictions(
        names,
        blank,
        tuple(formulas or blank),
        ("ok",) * n,
        ("ok",) * n,
        blank,
        mean,
        spread / 2,
        spread,
        mean + (quantiles - mean) / 2,
        quantiles,
    )
    return HeldOut(predictions, gaps)


def test_difference_is_that_of_the_figures():
    first = normal_heldout(noise(1, 0.2))
    second = normal_heldout(noise(2, 0.4))
    difference = paired_difference(first, second)
    expected = figures_at(first, 0.95)["rmse_eV"] - figures_at(second, 0.95)["rmse_eV"]
    assert difference.difference_eV == pytest.approx(expected, abs=1e-12)
    assert difference.n == N and difference.is_significant
    assert difference.lower_eV < difference.difference_eV < difference.upper_eV


def test_paired_interval_of_equal_runs_covers_zero_at_the_stated_rate():
    # 200 test sets; misses ~ Binomial(200, 0.05) if exact. 30 or more has probability 1e-6 at 0.06.
    misses = 0
    for k in range(200):
        rng = np.random.default_rng(k)
        both = [normal_heldout(rng.normal(0, 0.3, 100), gaps=GAPS[:100]) for _ in range(2)]
        misses += paired_difference(*both, resamples=300, seed=k).is_significant
    assert 1 <= misses < 30


def test_equal_predictions_have_no_difference_to_show():
    run = normal_heldout(noise(5, 0.2))
    difference = paired_difference(run, run)
    assert (
        difference.difference_eV,
        difference.lower_eV,
        difference.upper_eV,
        difference.is_significant,
    ) == (
        0.0,
        0.0,
        0.0,
        False,
    )
    assert paired.sentence(difference, baseline="it").startswith(
        "no difference to it that this test set can show"
    )


def test_common_rows_leave_out_other_structures_and_other_gaps():
    first = normal_heldout(
        np.zeros(4), gaps=np.array([1.0, 2.0, 3.0, 4.0]), ids=["a", "b", "c", "d"]
    )
    second = normal_heldout(np.zeros(3), gaps=np.array([4.0, 2.5, 1.0]), ids=["d", "b", "a"])
    ours, theirs = common_rows(first, second)
    assert ours.tolist() == [0, 3] and theirs.tolist() == [2, 0]


def test_difference_over_few_common_structures_is_refused():
    nine = normal_heldout(np.zeros(9), gaps=GAPS[:9])
    with pytest.raises(
        InputError, match=f"9 structures were held out by both runs; .* at least {MIN_COMMON}"
    ):
        paired_difference(nine, normal_heldout(np.zeros(N)))


def test_crps_from_quantiles_is_that_of_the_normal_distribution():
    run = normal_heldout(noise(6, 0.3))
    exact = crps_gaussian(GAPS, run.predictions.mean_eV, sd=run.predictions.sd_new_eV)
    assert crps_each(run).mean() == pytest.approx(exact, rel=2e-3)  # 199 quantiles, tails left out


def test_load_heldout_uses_gaps_of_the_manifest_and_refuses_damaged_runs(tmp_path):
    run = normal_heldout(np.zeros(3), gaps=np.array([1.0, 2.0, 3.0]), ids=["a", "b", "c"])
    save_predictions(tmp_path / "quantiles.safetensors", run.predictions)
    split = {"split": {"test": ["a", "b", "c"]}}
    stored = load_heldout(tmp_path, split | {"test_gaps_eV": [1.5, 2.5, 3.5]})
    assert stored.gaps_eV.tolist() == [1.5, 2.5, 3.5]
    with pytest.raises(
        ArtifactError, match="not the predictions of the structures that the manifest names"
    ):
        load_heldout(tmp_path, {"split": {"test": ["a", "b"]}})
    with pytest.raises(ArtifactError, match="2 known gaps for 3 held-out structures"):
        load_heldout(tmp_path, split | {"test_gaps_eV": [1.0, 2.0]})
    with pytest.raises(InputError, match="held out no structures"):
        load_heldout(tmp_path, {})
    with pytest.raises(ArtifactError, match="0 known gaps for 3 held-out structures"):
        load_heldout(tmp_path, split)
