"""Vectors of many structures: problems, cache, budget, progress, cancelling and processes."""

import dataclasses
from pathlib import Path

import ase.build
import numpy as np
import pytest
from ase import Atoms

from bandgap.descriptors import Descriptors, config_for, featurize, n_features
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.mbtr import describe
from bandgap.foundation.errors import BudgetError, Cancelled
from bandgap.foundation.progress import Update
from bandgap.structures import Problem, StructureRecord
from tests.unit.descriptors.samples import CONFIGS, K3, crystal, ethanol, random_molecules, record

CONFIG = CONFIGS["k1 k2 per heavy atom"]


def refused() -> StructureRecord:
    """Return a record as the readers make it of a file that cannot be used."""
    problem = Problem("refused", "no atoms.")
    return StructureRecord(
        id="broken", file="broken.cif", format="CIF", atoms=None, problems=(problem,)
    )


def same(first: Descriptors, second: Descriptors) -> bool:
    """Return whether vectors (NaN included) and problems are identical."""
    return (
        np.array_equal(first.features, second.features, equal_nan=True)
        and first.problems == second.problems
    )


def test_featurize_gives_the_vectors_of_molecules_and_crystals_in_float32() -> None:
    described = featurize([record(ethanol()), record(crystal())], CONFIG)
    assert described.features.dtype == np.float32
    assert described.features.shape == (2, n_features(CONFIG))
    assert described.problems == (None, None)
    assert described.n_computed == 2
    for row, atoms in zip(described.features, (ethanol(), crystal()), strict=True):
        np.testing.assert_array_equal(row, describe(atoms, CONFIG).astype(np.float32))


def test_featurize_unknown_element_is_the_problem_of_that_structure_only() -> None:
    bromide = ase.build.molecule("CH3Cl")
    described = featurize([record(ethanol()), record(bromide), record(crystal())], CONFIG)
    assert np.isfinite(described.features[[0, 2]]).all()
    assert np.isnan(described.features[1]).all()
    assert described.problems == (
        None,
        Problem(
            "refused", "contains Cl, which the descriptor was not set up for; accepted: H C N O."
        ),
        None,
    )
    assert described.n_computed == 2


def test_featurize_refused_record_has_an_empty_row_and_no_second_problem() -> None:
    described = featurize([refused(), record(ethanol())], CONFIG)
    assert np.isnan(described.features[0]).all()
    assert described.problems == (None, None)
    assert np.isfinite(described.features[1]).all()


def test_featurize_atoms_at_one_point_does_not_affect_other_structures() -> None:
    described = featurize([record(Atoms("CC")), record(ethanol())], CONFIG)
    assert np.isfinite(described.features[1]).all()
    assert (described.problems[0] is None) == bool(np.isfinite(described.features[0]).all())


def test_featurize_equal_structures_are_computed_once() -> None:
    described = featurize(
        [record(ethanol(), "a"), record(crystal()), record(ethanol(), "b")], CONFIG
    )
    assert described.n_computed == 2
    np.testing.assert_array_equal(described.features[0], described.features[2])


def test_featurize_second_run_computes_nothing(tmp_path: Path) -> None:
    records = [record(ethanol()), record(Atoms("Br")), record(crystal())]
    first = featurize(records, CONFIG, cache=DescriptorCache(tmp_path))
    second = featurize(records, CONFIG, cache=DescriptorCache(tmp_path))
    assert (first.n_computed, second.n_computed) == (2, 0)
    assert same(first, second)


def test_featurize_with_other_settings_recomputes(tmp_path: Path) -> None:
    cache = DescriptorCache(tmp_path)
    featurize([record(ethanol())], CONFIG, cache=cache)
    per_atom = dataclasses.replace(CONFIG, normalisation="per_atom")
    described = featurize([record(ethanol())], per_atom, cache=cache)
    assert described.n_computed == 1
    np.testing.assert_array_equal(
        described.features[0], describe(ethanol(), per_atom).astype(np.float32)
    )


def test_featurize_over_budget_is_refused_with_what_to_change() -> None:
    config = dataclasses.replace(config_for(preset="oe62-16"), k3=K3)
    with pytest.raises(BudgetError) as caught:
        featurize([record(ethanol())] * 1000, config, memory_budget_bytes=50_000_000)
    assert str(caught.value) == (
        "1,000 structures x 22,880 features need 0.09 GB, more than the budget of 0.05 GB. "
        "Use fewer species (now 16: H Li B C N O F Si P S Cl As Se Br Te I), no k3, "
        "fewer grid points, fewer structures, or raise the memory budget."
    )


class CancelAfter:
    """Progress that cancels at its n-th call."""

    def __init__(self, calls: int) -> None:
        self.n_remaining_calls = calls

    def __call__(self, update: Update, /) -> None:
        self.n_remaining_calls -= 1
        if self.n_remaining_calls == 0:
            raise Cancelled("cancelled")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_featurize_cancelled_stores_what_it_has_computed(
    n_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.descriptors.vectors.MIN_ATOMS_FOR_PROCESSES", 0)
    records = [record(m) for m in random_molecules(500)]
    cache = DescriptorCache(tmp_path)
    with pytest.raises(Cancelled):
        featurize(records, CONFIG, cache=cache, n_jobs=n_jobs, progress=CancelAfter(4))
    n_stored = len(cache)
    assert 0 < n_stored < 500
    assert featurize(records, CONFIG, cache=cache).n_computed == 500 - n_stored


def test_featurize_over_processes_gives_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandgap.descriptors.vectors.MIN_ATOMS_FOR_PROCESSES", 0)
    records = [*(record(m) for m in random_molecules(150)), record(crystal()), record(Atoms("Br"))]
    assert same(featurize(records, CONFIG, n_jobs=2), featurize(records, CONFIG))
