"""What to compute next: a structure with a doubtful file is never ranked, and the list says why."""

import numpy as np
import pytest

from bandgap.evaluation.calibrators import Calibrator
from bandgap.foundation.csv_tables import csv_of_columns
from bandgap.foundation.errors import InputError
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.next_structures import (
    CHANCE,
    CRITERIA,
    DISTANCE,
    REDUCTION,
    criteria,
    next_structures,
)
from bandgap.predictions.table import Predictions, predictions_from_draws
from bandgap.predictions.window import Window
from bandgap.structures.ids import with_new_id, without_renaming
from bandgap.structures.records import Problem, StructureRecord

NO_HYDROGENS = "no hydrogen atoms in the file; the model was trained with hydrogens, expect a shift"
FAR = "Farther from the training set than 98 % of it"


def predicted(problems: list[str], *, draws: int = 40) -> tuple[Predictions, PredictionDetails]:
    """Predictions of structures s0, s1, ...; each is less certain and farther from known than the
    one before.
    """
    n = len(problems)
    rng = np.random.default_rng(0)
    means = 2.0 + rng.normal(size=(draws, n)) * np.linspace(0.1, 1.0, n)
    predictions = predictions_from_draws(
        means,
        np.full(draws, 0.1),
        ids=[f"s{k}" for k in range(n)],
        files=[f"s{k}.cif" for k in range(n)],
        formulas=["CH4"] * n,
        domain=["ok"] * (n - 1) + [FAR],
        status=["warning" if problem or k == n - 1 else "ok" for k, problem in enumerate(problems)],
        problem=problems,
    )
    details = PredictionDetails(
        nearest=("known",) * n,
        n_atoms=np.full(n, 5),
        distance=np.linspace(0.01, 0.5, n),
        percentile=np.linspace(0.1, 1.0, n),
        labelled=np.zeros(n, dtype=bool),
        joint_rows=np.arange(n),
        means_eV=means.astype(np.float32),
        noise_variance=np.full(n, 0.01),
    )
    return predictions, details


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("spread", [True, False])
def test_structure_with_a_warning_on_its_content_is_last_with_the_reason(criterion, spread):
    # The least certain and farthest of all.
    predictions, details = predicted(["", "", "", "", NO_HYDROGENS])
    table = next_structures(predictions, details, criterion=criterion, count=10, spread=spread)
    columns = table.columns(predictions, details)
    assert columns["rank"] == [1, 2, 3, 4, None] and set(columns["id"][:4]) == {
        "s0",
        "s1",
        "s2",
        "s3",
    }
    *ranked, last = columns["warning"]
    assert columns["id"][4] == "s4" and not any(ranked) and last.startswith(NO_HYDROGENS)
    assert (table.n_ranked, table.n_not_ranked) == (4, 1)
    last = csv_of_columns(columns).splitlines()[-1]
    assert last.startswith(",s4,") and NO_HYDROGENS in last


def test_structure_far_from_training_set_is_ranked_first():
    predictions, details = predicted(["", "", "", ""])
    assert predictions.status[3] == "warning"  # by its domain alone
    for criterion in CRITERIA:
        assert next_structures(predictions, details, criterion=criterion, count=4).rows[0] == 3


def test_structures_with_warnings_do_not_change_the_ranking_of_others():
    predictions, details = predicted(["", "", "", NO_HYDROGENS])
    table = next_structures(predictions, details, count=3)
    sound, sound_details = predicted(["", "", ""])
    variance = details.means_eV[:, :3].var(axis=0, ddof=1).mean()
    assert table.ranking.initial_variance == pytest.approx(variance, rel=1e-5)
    assert table.reduction_percent.sum() <= 100.0 + 1e-6
    assert len(sound) == len(sound_details) == table.n_ranked


@pytest.mark.parametrize("id", ["a", "a; b", "a.b*"])
def test_renamed_duplicate_id_is_no_content_warning(id):
    for problems in ([], [NO_HYDROGENS]):
        record_problems = tuple(Problem("warning", text) for text in problems)
        record = with_new_id(StructureRecord(id, "x.cif", "CIF", None, record_problems), f"{id}-2")
        assert without_renaming(record.problem, record.id) == "; ".join(problems)
        assert without_renaming(f"{record.problem}; no cell", record.id) == "; ".join(
            [*problems, "no cell"]
        )


def test_few_draws_allow_only_the_distance_criterion():
    predictions, details = predicted(["", ""], draws=1)
    assert criteria(details) == [DISTANCE]
    with pytest.raises(InputError, match="this run has 1 draws, at least 8 are needed"):
        next_structures(predictions, details, criterion=REDUCTION)


def test_chance_of_a_batch_follows_the_calibrated_spread():
    predictions, details = predicted(["", "", ""], draws=400)
    wider = Calibrator("variance", ("a",), ("a.cif",), 0, 10, factor=3.0).apply(predictions)
    window = Window(2.5, 3.0)
    for gaps in (predictions, wider):
        table = next_structures(gaps, details, criterion=CHANCE, count=3, window=window)
        alone = gaps.window_probability(window)[table.rows[0]]
        # The gaps are normal up to 400 draws of their means.
        assert table.window_ranking.totals[0] == pytest.approx(alone, abs=0.01)
