"""The benchmark on crystals of any elements, on small sets: methods, peers and resuming."""

import csv
import dataclasses
import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import write

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.networks.training import TrainingConfig
from bandgap.runs.compared_fits import ComparedFit
from bandgap.sources.model import SourceConfig
from benchmarks.commands.crystals import print_crystals
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
    path = folder / where.structures
    path.parent.mkdir(parents=True, exist_ok=True)
    if not where.table:
        frames = molecules()
        for k, atoms in enumerate(frames):
            atoms.info = {"id": f"m{k}", LABEL: gap_of(atoms)}
        write(path.with_suffix(""), frames, format="extxyz")
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
        return
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for k, atoms in enumerate(salts()):
            write(folder / "one.cif", atoms, format="cif")
            archive.write(folder / "one.cif", f"s{k}.cif")
            rows.append({"id": f"s{k}", "other_gap_eV": 1.0, LABEL: gap_of(atoms)})
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


def rows_in(out: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (out / "perovskites.jsonl").read_text(encoding="utf-8").splitlines()
    ]


ONE_SET = dataclasses.replace(CONFIG, sets=("perovskites",), peers=False)


def test_stored_fits_with_another_number_of_test_rows_are_recomputed(
    data: Path, tmp_path: Path, caplog
) -> None:
    list(run_crystals(data, tmp_path, ONE_SET))
    smaller = dataclasses.replace(ONE_SET, n_test=N_TEST - 4)
    fits = list(run_crystals(data, tmp_path, smaller))
    errors = read_errors(errors_file(tmp_path, "perovskites"))
    assert {len(errors[fit.method, N][0]) for _, fit in fits} == {N_TEST - 4} and len(
        rows_in(tmp_path)
    ) == 4
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        f"fits of {name} were made with another number of test structures and are recomputed (1)"
        for name in ("gaussian_process", "fine_tune")
    ]
    caplog.clear()
    assert list(run_crystals(data, tmp_path, smaller)) == fits
    assert len(rows_in(tmp_path)) == 4 and not caplog.records


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda row: row["made_of"].update(descriptor="0"), "were made with another descriptor"),
        (lambda row: row["made_of"].update(data="0"), "were made with other data"),
    ],
    ids=["descriptor", "data"],
)
def test_stored_fits_with_other_inputs_are_recomputed(
    change, why, data: Path, tmp_path: Path, caplog
) -> None:
    config = dataclasses.replace(ONE_SET, methods=("gaussian_process",))
    ((_, first),) = run_crystals(data, tmp_path, config)
    (row,) = rows_in(tmp_path)
    change(row)
    row["figures"]["rmse_eV"] = 99.0
    (tmp_path / "perovskites.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    ((_, again),) = run_crystals(data, tmp_path, config)
    assert again.figures == first.figures and again.made_of == first.made_of
    assert why in caplog.text and len(rows_in(tmp_path)) == 2


def test_stored_fits_from_another_source_are_recomputed(data: Path, tmp_path: Path, caplog) -> None:
    list(run_crystals(data, tmp_path, ONE_SET))
    shutil.rmtree(tmp_path / "source")
    list(run_crystals(data, tmp_path, dataclasses.replace(ONE_SET, source_seed=1)))
    assert [row["method"] for row in rows_in(tmp_path)] == [
        "gaussian_process",
        "fine_tune",
        "fine_tune",
    ]
    assert "fits of fine_tune were made with another source" in caplog.text


def test_source_is_trained_with_what_every_method_needs() -> None:
    config = CrystalsBenchmark().source
    assert config.variational  # for btl_vi
    assert config.snapshots is not None  # for ptyl


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


def test_missing_data_and_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"has no dj_perovskite_hse/cifs.zip. Give the folder that contains the data",
    ):
        next(run_crystals(tmp_path, tmp_path, CONFIG))
    with pytest.raises(
        InputError, match=r"set 'salts'\. Accepted: perovskites, inorganic, organic\."
    ):
        CrystalsBenchmark(sets=("salts",))
    with pytest.raises(ConfigError, match="nonsense"):
        CrystalsBenchmark(methods=("nonsense",))


def test_table_of_a_set_has_methods_as_rows_and_figures_as_columns(capsys) -> None:
    figures = {"rmse_eV": 0.25, "crps_eV": 0.125, "coverage_95": 0.94, "width_95_eV": 1.0}
    worse = {**figures, "rmse_eV": 0.35}
    fits = [
        ComparedFit("gaussian_process", 100, 0, figures, 1.0, made_of={}),
        ComparedFit("gaussian_process", 100, 1, worse, 1.0, made_of={}),
        ComparedFit(
            "Magpie, random forest",
            100,
            0,
            worse,
            1.0,
            warnings=("2 of 110 structures cannot be described.",),
            made_of={},
        ),
    ]
    print_crystals("perovskites", fits)
    printed = capsys.readouterr()
    assert "perovskites, n = 100: mean over 2 splits +- standard error" in printed.out
    assert (
        "0.300 +- 0.050" in printed.out and "94.0 +- 0.0" in printed.out and "0.350" in printed.out
    )
    assert "Magpie, random forest, n = 100: 2 of 110 structures cannot be described." in printed.err


def test_methods_with_electron_levels_are_on_the_sets_that_have_them() -> None:
    config = CrystalsBenchmark(("stacking", "stacking+molecules", "feature_gp+levels"), peers=False)
    assert entrants(config, "perovskites") == ["stacking", "stacking+molecules"]
    assert entrants(config, "organic") == ["stacking", "feature_gp+levels"]
    assert entrants(config, "inorganic") == ["stacking"]
    with pytest.raises(InputError, match="Write NAME"):
        CrystalsBenchmark(("stacking+xtb",))


def test_proposed_method_is_compared_with_its_levels_where_it_was_fitted_with_them() -> None:
    perovskites = SETS["perovskites"]
    assert perovskites.proposed_among(["stacking", "stacking+molecules"]) == "stacking+molecules"
    assert perovskites.proposed_among(["stacking", "parts_gp"]) == "stacking"
    fitted = [f"feature_gp{suffix}" for suffix in ("", "+hueckel", "+levels")]
    assert SETS["organic"].proposed_among(fitted) == "feature_gp+levels"
    assert SETS["organic"].proposed_among([*fitted, "feature_gp+both"]) == "feature_gp+both"


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


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("chgnet", "sevennet-mf-0", "chgnet-two-layers"), "3 potentials"),
        (("m3gnet",), "potential is 'm3gnet'"),
        (("chgnet", "chgnet"), "both 'chgnet'"),
    ],
)
def test_wrong_potentials_are_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CrystalsBenchmark(potentials=names)
