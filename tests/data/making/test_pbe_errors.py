"""Errors by chemistry, and that left-out rows and judged rows were not learned from."""

import numpy as np
import pytest
from ase.build import bulk

from bandgap.datasets.table import LabelledSet, learnable
from bandgap.descriptors import config_for
from bandgap.runs.requests import TransferRequest
from bandgap.runs.stored import load_run
from bandgap.runs.transfer import transfer_run
from bandgap.structures import as_records
from data.making.pbe_errors import RARE, REST, Judged, error_rows, joined, judge, left_out

PRESET = "composition-neighbours"
SETTINGS = {"folds": 2, "hidden": [8], "epochs": 3, "trees_share": 0.5, "trees": {"trees": 5}}
REQUEST = TransferRequest(
    method="fresh_networks", preset=PRESET, by_formula=True, n_test=0, settings=SETTINGS
)


@pytest.fixture(scope="module")
def crystals() -> LabelledSet:
    """Rock salts of which half are metals."""
    cations = ("Li", "Na", "K", "Rb", "Cs", "Mg", "Ca", "Sr", "Ba", "Cu")
    pairs = [(a, b) for a in cations for b in ("O", "F", "S", "N")]
    atoms = [bulk(a + b, "rocksalt", a=5.0) for a, b in pairs]
    gaps_eV = np.array([0.0 if b in "SN" else 1.0 + i % 10 for i, (_, b) in enumerate(pairs)])
    return LabelledSet(as_records(atoms), gaps_eV, level_of_theory="PBE")


def test_a_crystal_belongs_to_the_first_of_its_anions() -> None:
    gaps_eV = np.array([1.0, 2.0, 3.0, 0.0])
    judged = Judged(
        [{"Na", "O", "F"}, {"Na", "F"}, {"Ga", "As"}, {"Cu", "Zn"}],
        gaps_eV,
        gaps_eV + np.array([0.3, -0.4, 0.0, 5.0]),
        np.array([True, False, True, False]),
        np.array([0.1, 0.2, 0.0, 0.9]),
    )
    rows = {row["chemistry"]: row for row in error_rows(judged)}
    assert {name: row["n"] for name, row in rows.items()} == {
        **{"all": 3, "oxides": 1, "halides": 1, "pnictides": 1},
        f"an element of fewer than {RARE} crystals": 3,
    }
    assert REST not in rows  # a metal alone has no error of a gap
    assert rows["all"]["rmse_eV"] == pytest.approx(np.sqrt((0.09 + 0.16) / 3))
    assert rows["all"]["coverage_95"] == pytest.approx(2 / 3)
    assert rows["all"]["auc_metal"] == 1.0 and "auc_metal" not in rows["oxides"]


def test_left_out_rows_have_the_errors_that_the_fit_measured(crystals, tmp_path) -> None:
    run = load_run(transfer_run(None, crystals, REQUEST, out=tmp_path / "run"))
    records = {record.id: i for i, record in enumerate(crystals.records)}
    order = [records[id_] for id_ in run.manifest["split"]["train"]]
    table = learnable(
        [crystals.records[i] for i in order],
        crystals.gaps_eV[order],
        descriptor=config_for(preset=PRESET),
        of_source=False,
    )
    (row, *_) = error_rows(left_out(run.posterior, table))
    figures = run.manifest["diagnostics"]
    assert row["rmse_eV"] == pytest.approx(figures["cv_rmse_eV"])
    assert row["auc_metal"] == pytest.approx(figures["auc_metal_left_out"])


def test_every_row_is_judged_once_next_to_its_peers(crystals) -> None:
    splits = list(judge(crystals, REQUEST))
    assert len(splits) == 5 and len({frozenset(sides) for sides in splits}) == 1
    recipe = joined([sides["recipe"] for sides in splits])
    np.testing.assert_array_equal(np.sort(recipe.gaps_eV), np.sort(crystals.gaps_eV))
    assert np.isfinite([row["rmse_eV"] for row in error_rows(recipe)]).all()
