"""The benchmark on crystals of any elements, on small sets: methods, peers and resuming."""

import csv
import dataclasses
import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import write

from bandgap.datasets.shipped_models import folder_of_source
from bandgap.datasets.table import LabelledSet
from bandgap.foundation.errors import InputError
from bandgap.networks.training import TrainingConfig
from bandgap.runs.compared_fits import ComparedFit
from bandgap.sources.model import SourceConfig
from bandgap.storage.manifests import read_manifest
from bandgap.structures import as_records
from benchmarks.crystal_peers import PEERS
from benchmarks.crystals import (
    LABEL,
    SETS,
    CrystalsBenchmark,
    CrystalSet,
    entrants,
    errors_file,
    measured_rows,
    run_crystals,
    without_formulas_of,
)
from benchmarks.paired import read_errors, read_scores

N = 20
N_TEST = 12
CONFIG = CrystalsBenchmark(
    ("gaussian_process", "fine_tune"),
    sets=("perovskites", "organic"),
    seeds=(0,),
    sizes=(N,),
    n_test=N_TEST,
    source=SourceConfig(hidden=(8, 4), training=TrainingConfig(max_epochs=3)),
)


def salts() -> list[Atoms]:
    """Rock salts of different spacing, whose gap falls with it."""
    names = [f"{metal}{other}" for metal in ("Na", "K", "Rb", "Mg") for other in ("Cl", "Br", "I")]
    return [bulk(name, "rocksalt", a=a) for a in (5.0, 5.4, 5.8) for name in names]


def molecules() -> list[Atoms]:
    rng = np.random.default_rng(0)
    frames = [molecule(name) for name in ("CH4", "C2H6", "CH3OH") for _ in range(12)]
    for atoms in frames:
        atoms.positions += rng.normal(0, 0.05, atoms.positions.shape)
    return frames


def gap_of(atoms: Atoms) -> float:
    return float(
        8.0
        - 0.02 * np.mean(atoms.numbers)
        - 0.3 * np.log(len(atoms))
        + 0.1 * np.std(atoms.positions)
    )


def write_set(folder: Path, where: CrystalSet) -> None:
    if not where.table:
        path = folder / where.structures
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = molecules()
        for k, atoms in enumerate(frames):
            atoms.info = {"id": f"m{k}", LABEL: gap_of(atoms)}
        write(path.with_suffix(""), frames, format="extxyz")
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
        return
    crystals = salts()
    write_archive(folder, where, crystals, [gap_of(atoms) for atoms in crystals])


def write_archive(
    folder: Path, where: CrystalSet, crystals: list[Atoms], gaps_eV: list[float]
) -> None:
    """Write crystals as CIFs in a zip, and the table of their gaps with another column."""
    path = folder / where.structures
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for k, (atoms, gap_eV) in enumerate(zip(crystals, gaps_eV, strict=True)):
            write(folder / "one.cif", atoms, format="cif")
            archive.write(folder / "one.cif", f"s{k}.cif")
            rows.append({"id": f"s{k}", "other_gap_eV": 1.0, LABEL: gap_eV})
    with (folder / where.table).open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ("id", "other_gap_eV", LABEL))
        table.writeheader()
        table.writerows(rows)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for where in SETS.values():
        write_set(folder, where)
    return folder


@pytest.mark.slow
def test_methods_and_peers_predict_the_same_rows_and_fits_are_stored(
    data: Path, tmp_path: Path
) -> None:
    fits = list(run_crystals(data, tmp_path, CONFIG))
    for name in CONFIG.sets:
        assert [fit.method for set_name, fit in fits if set_name == name] == entrants(CONFIG, name)
    assert {set_name for set_name, fit in fits if fit.method == "fine_tune"} == {
        "perovskites",
        "organic",
    }
    assert "fine_tune" not in entrants(CONFIG, "inorganic")
    for set_name, fit in fits:
        assert set(fit.figures) >= {"rmse_eV", "crps_eV", "coverage_95", "width_95_eV"}
        assert np.isfinite(list(fit.figures.values())).all() and fit.figures["width_95_eV"] > 0
        errors = read_errors(errors_file(tmp_path, set_name))[fit.method, N][0]
        assert len(errors) == N_TEST
        assert np.sqrt(np.mean(np.square(list(errors.values())))) == pytest.approx(
            fit.figures["rmse_eV"]
        )
        scores = read_scores(errors_file(tmp_path, set_name))[fit.method, N][0]
        assert scores.keys() == errors.keys()
        assert np.mean(list(scores.values())) == pytest.approx(fit.figures["crps_eV"])
    trained = (tmp_path / "source" / "manifest.json").stat().st_mtime_ns
    assert list(run_crystals(data, tmp_path, CONFIG)) == fits
    more = list(
        run_crystals(
            data, tmp_path, dataclasses.replace(CONFIG, seeds=(0, 1), sets=("perovskites",))
        )
    )
    assert len(more) == 2 * len(entrants(CONFIG, "perovskites"))
    assert (tmp_path / "source" / "manifest.json").stat().st_mtime_ns == trained


def test_peers_whose_package_is_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {peer.package for peer in PEERS} == {"", "chgnet"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [name for name in entrants(CONFIG, "organic") if name not in CONFIG.methods] == [
        peer.name for peer in PEERS if not peer.package
    ]
    assert entrants(dataclasses.replace(CONFIG, peers=False), "inorganic") == ["gaussian_process"]


@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(peer, id=peer.name, marks=pytest.mark.slow if "Magpie" in peer.name else ())
        for peer in PEERS
        if not peer.package
    ],
)
def test_peer_learns_a_smooth_function_with_a_calibrated_error(peer) -> None:
    """Its standard deviation is within a factor of 1.6 of the error on new rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(160, 6))
    y = 3.0 + np.tanh(x[:, 0]) + 0.5 * x[:, 1] + rng.normal(0, 0.1, 160)
    mean, sd = peer.fit(x[:120], y[:120], x[120:], 0)
    error = float(np.sqrt(np.mean((mean - y[120:]) ** 2)))
    assert mean.shape == sd.shape == (40,)
    assert error < 0.6 * y[120:].std()
    assert 1 / 1.6 < error / float(np.sqrt(np.mean(sd**2))) < 1.6


def test_methods_with_electron_levels_are_on_the_sets_that_have_them() -> None:
    config = CrystalsBenchmark(("stacking", "stacking+molecules", "feature_gp+levels"), peers=False)
    assert entrants(config, "perovskites") == ["stacking", "stacking+molecules"]
    assert entrants(config, "organic") == ["stacking", "feature_gp+levels"]
    assert entrants(config, "inorganic") == ["stacking"]
    with pytest.raises(InputError, match="Write NAME"):
        CrystalsBenchmark(("stacking+xtb",))


def _fits(method: str, errors_eV: list[float]) -> list[ComparedFit]:
    return [
        ComparedFit(method, 100, seed, {"rmse_eV": error}, 1.0, made_of={})
        for seed, error in enumerate(errors_eV)
    ]


def test_rows_of_the_table_have_method_levels_extras_and_mean_error() -> None:
    config = CrystalsBenchmark(sets=("perovskites",), potentials=("chgnet-two-layers",))
    fits = [
        *_fits("stacking+molecules", [0.18, 0.20, 0.16]),
        *_fits("feature_gp", [0.3, 0.3, 0.3]),
        *_fits("kernel_ridge", [0.3, 0.3]),
        *_fits(PEERS[0].name, [0.3, 0.3, 0.3]),
    ]
    rows = measured_rows("perovskites", fits, config, date="2026-11-28", command="c")
    assert [(row.method, row.levels, row.source, row.extras) for row in rows] == [
        ("stacking", "GFN1-xTB-molecules", "none", "chgnet xtb"),
        ("feature_gp", "none", "inorganic, trained by the benchmark", ""),
    ]
    assert (rows[0].rmse_eV, rows[0].standard_error_eV, rows[0].splits) == (0.18, "0.012", "3")


def test_formulas_in_the_data_of_a_shipped_model_are_left_out() -> None:
    folder = folder_of_source("pbe-composition")
    assert folder is not None
    reference = read_manifest(folder, kind="run")["references"][0]
    cell = {"cell": reference["cell"], "pbc": True}
    learned = Atoms(numbers=reference["numbers"], positions=reference["positions"], **cell)
    new = bulk("KXe", "rocksalt", a=6.0)
    labelled = LabelledSet(as_records([learned, new]), np.array([1.0, 2.0]))
    unseen = without_formulas_of(labelled, folder)
    assert [record.formula for record in unseen.records] == ["KXe"]
    assert unseen.gaps_eV.tolist() == [2.0]
    with pytest.raises(InputError, match="Accepted: --source pbe"):
        without_formulas_of(labelled, folder_of_source("demo"))


def test_shipped_source_is_used_on_a_set_that_has_none(tmp_path: Path) -> None:
    write_set(tmp_path, SETS["inorganic"])
    config = CrystalsBenchmark(
        ("feature_gp",),
        sets=("inorganic",),
        seeds=(0, 1, 2),
        sizes=(N,),
        n_test=N_TEST,
        peers=False,
        shipped="pbe-composition",
    )
    fits = [fit for _, fit in run_crystals(tmp_path, tmp_path / "out", config)]
    rows = measured_rows("inorganic", fits, config, date="2026-11-29", command="crystals")
    assert [(row.source, row.extras, row.method, row.splits) for row in rows] == [
        ("pbe", "", "feature_gp", "3")
    ]
