"""The regressor in scikit-learn's conventions, on molecules and with the demo's source."""

import pickle
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from ase import Atoms
from ase.build import bulk, molecule
from sklearn.base import RegressorMixin
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator
from typer.testing import CliRunner

import bandgap
from bandgap import BandGapRegressor
from bandgap.cli import app
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.runs.regressor import InvalidDataError
from bandgap.runs.unseen_elements import UnseenElementWarning
from tests.unit.conftest import gaps_of, make_records

QUICK = "kernel_ridge"


@pytest.fixture(scope="module")
def molecules() -> tuple[list[Atoms], np.ndarray]:
    """24 molecules and their gaps in eV."""
    records = make_records(24, seed=1, prefix="target")
    return [record.atoms for record in records], gaps_of(records, seed=2)


@pytest.fixture(scope="module")
def fitted(molecules) -> BandGapRegressor:
    """A regressor that learned from the first 18 molecules; tests must not change it."""
    structures, gaps_eV = molecules
    return BandGapRegressor(QUICK, conformal_share=0.2).fit(structures[:18], gaps_eV[:18])


def test_predictions_are_close_to_the_gaps(fitted, molecules):
    structures, gaps_eV = molecules
    mean_eV, sd_eV = fitted.predict(structures[18:], return_std=True)
    assert mean_eV.shape == sd_eV.shape == (6,)
    assert np.abs(mean_eV - gaps_eV[18:]).max() < 1.0
    assert (sd_eV > 0).all()
    assert fitted.score(structures[18:], gaps_eV[18:]) > 0.8
    np.testing.assert_allclose(fitted.predict(structures[18]), mean_eV[:1], atol=1e-6)


def test_intervals_are_those_of_the_predictions_table(fitted, molecules):
    structures = molecules[0][18:]
    table = fitted.predict_table(structures)
    for kind in ("prediction", "credible"):
        ends = fitted.predict_interval(structures, level=0.8, kind=kind)
        np.testing.assert_array_equal(ends, table.interval(0.8, kind))
    lower_eV, upper_eV = fitted.predict_interval(structures, 0.7, "conformal")
    assert ((lower_eV < table.mean_eV) & (table.mean_eV < upper_eV)).all()


def test_saved_run_predicts_the_same_in_python_and_on_the_command_line(
    fitted, molecules, tmp_path: Path
):
    structures = molecules[0][18:]
    mean_eV = fitted.predict(structures)
    folder = fitted.save(tmp_path / "run")
    np.testing.assert_array_equal(bandgap.predict_run(folder, structures).mean_eV, mean_eV)

    loaded = BandGapRegressor.load(folder)
    np.testing.assert_array_equal(loaded.predict(structures), mean_eV)
    assert loaded.get_params()["method"] == QUICK
    assert loaded.get_params()["conformal_share"] == 0.2
    again = loaded.save(tmp_path / "again")
    assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in folder.iterdir())

    structures[0].write(tmp_path / "new.xyz", format="xyz")
    out = tmp_path / "predictions.csv"
    words = ["predict", "--model", folder, "--structures", tmp_path / "new.xyz", "--out", out]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    frame = bandgap.predictions.table.read_predictions_csv(out)
    assert frame["mean_eV"][0] == pytest.approx(mean_eV[0], abs=1e-4)


def by_skops(regressor: BandGapRegressor) -> BandGapRegressor:
    """Return the regressor that skops makes of its file, in which one type is not its own."""
    content = skops.io.dumps(regressor)
    (name,) = skops.io.get_untrusted_types(data=content)
    assert name == "bandgap.runs.regressor.BandGapRegressor"
    return skops.io.loads(content, trusted=[name])


@pytest.mark.parametrize("copy_of", [lambda r: pickle.loads(pickle.dumps(r)), by_skops])
def test_dumped_regressor_predicts_the_same(
    fitted, molecules, copy_of: Callable[[BandGapRegressor], BandGapRegressor], tmp_path: Path
):
    copy = copy_of(fitted)
    assert copy.get_params() == fitted.get_params()
    np.testing.assert_array_equal(copy.predict(molecules[0]), fitted.predict(molecules[0]))
    assert copy.save(tmp_path / "run").is_dir()


def test_dump_with_a_damaged_run_or_a_path_is_refused(fitted, tmp_path: Path):
    state = fitted.__getstate__()
    outside = tmp_path / "stranger.txt"
    damaged = {name: content[:-9] for name, content in state["_files"].items()}
    with pytest.raises(ArtifactError):
        BandGapRegressor().__setstate__(state | {"_files": {**damaged, str(outside): b"x"}})
    assert not outside.exists()


def test_cross_validation_grid_search_and_pipeline_work(molecules, tmp_path: Path):
    structures, gaps_eV = molecules
    regressor = BandGapRegressor(QUICK, cache=tmp_path / "cache")
    scores = cross_val_score(regressor, structures, gaps_eV, cv=3, error_score="raise")
    assert scores.min() > 0.5

    def unchanged(items: Sequence[Atoms]) -> Sequence[Atoms]:
        return list(items)

    pipeline = Pipeline([("unchanged", FunctionTransformer(unchanged)), ("gap", regressor)])
    search = GridSearchCV(
        pipeline, {"gap__method": [QUICK, "random_forest"]}, cv=2, error_score="raise"
    )
    search.fit(structures, gaps_eV)
    assert search.best_score_ > 0.5
    assert search.predict(structures[:2]).shape == (2,)


def test_structures_of_all_kinds_give_the_same_prediction(fitted, molecules, tmp_path: Path):
    atoms = molecules[0][20]
    atoms.write(tmp_path / "one.extxyz", format="extxyz")
    (record,) = bandgap.read_paths(tmp_path / "one.extxyz")
    means = fitted.predict([record, record.atoms, tmp_path / "one.extxyz"])
    np.testing.assert_allclose(means, means[0], atol=1e-6)
    assert fitted.predict(str(tmp_path / "one.extxyz"))[0] == pytest.approx(means[0], abs=1e-6)


def test_table_with_one_column_is_a_list_of_structures(fitted, molecules, tmp_path: Path):
    structures, gaps_eV = molecules
    table = pd.DataFrame({"structure": structures, "number": range(24)})
    X = table[["structure"]]
    scores = cross_val_score(BandGapRegressor(QUICK), X, gaps_eV, cv=3, error_score="raise")
    np.testing.assert_array_equal(
        scores, cross_val_score(BandGapRegressor(QUICK), structures, gaps_eV, cv=3)
    )
    mean_eV = fitted.predict(structures)
    for column in (X, X.to_numpy(), table["structure"]):
        np.testing.assert_array_equal(fitted.predict(column), mean_eV)
    run = fitted.save(tmp_path / "run")
    np.testing.assert_array_equal(bandgap.predict_run(run, X).mean_eV, mean_eV)
    for call in (fitted.predict, lambda items: bandgap.predict_run(run, items)):
        with pytest.raises(InputError, match="found a table of 2 columns. Accepted: one column"):
            call(table)


@pytest.mark.parametrize(
    "structure",
    [Atoms(), Atoms("CO", [[0, 0, 0], [0, 0, 0.01]])],
    ids=["no atoms", "overlap"],
)
def test_structure_that_predict_run_refuses_is_refused_with_its_reason(
    fitted, molecules, structure: Atoms, tmp_path: Path
):
    structures, gaps_eV = molecules
    mixed = [*structures[:11], structure]
    table = bandgap.predict_run(fitted.save(tmp_path / "run"), mixed)
    assert [status == "refused" for status in table.status] == [False] * 11 + [True]
    reason = re.escape(
        f"structure 12 (structure-12) cannot be used: {table.problem[11].rstrip('.')}"
    )
    for call in (fitted.predict, fitted.predict_interval, fitted.domain_p):
        with pytest.raises(InvalidDataError, match=reason):
            call(mixed)
    for call in (fitted.score, BandGapRegressor(QUICK).fit):
        with pytest.raises(InvalidDataError, match=reason):
            call(mixed, gaps_eV[:12])


def test_demo_source_is_transferred():
    crystals = bandgap.load_demo("crystals")
    regressor = BandGapRegressor(
        "last_layer_ridge", source="demo", level_of_theory=crystals.level_of_theory
    )
    regressor.fit([record.atoms for record in crystals.records[:60]], crystals.gaps_eV[:60])
    rmse_eV = np.sqrt(
        np.mean((regressor.predict(crystals.records[60:100]) - crystals.gaps_eV[60:100]) ** 2)
    )
    assert rmse_eV < crystals.gaps_eV[60:100].std()
    assert regressor.run_.manifest["source"]["members"] == 1
    np.testing.assert_array_equal(
        by_skops(regressor).predict(crystals.records[60:70]),
        regressor.predict(crystals.records[60:70]),
    )


def test_baseline_is_read_from_info(molecules):
    structures, gaps_eV = molecules
    labelled = [atoms.copy() for atoms in structures]
    for atoms, gap in zip(labelled, gaps_eV, strict=True):
        atoms.info["gap_pbe_eV"] = float(gap) - 1.5
    regressor = BandGapRegressor(QUICK, baseline="gap_pbe_eV").fit(labelled[:18], gaps_eV[:18])
    np.testing.assert_allclose(regressor.predict(labelled[18:]), gaps_eV[18:], atol=0.1)
    with pytest.raises(InputError, match="no structure has the key 'gap_pbe_eV'"):
        regressor.predict(structures[18:])


def test_p_values_of_the_domain_are_those_of_the_table_and_survive_save_and_load(tmp_path: Path):
    records = make_records(70, seed=5, prefix="known")
    regressor = BandGapRegressor(QUICK)
    regressor.fit(records[:60], gaps_of(records, seed=6)[:60])
    new = records[60:]
    p = regressor.domain_p(new)
    assert p.shape == (10,)
    np.testing.assert_array_equal(regressor.predict_table(new).domain_p, p)
    stretched = [record.atoms.copy() for record in new]
    for atoms in stretched:
        atoms.positions *= 1.5
    assert np.median(regressor.domain_p(stretched)) < np.median(p)
    loaded = BandGapRegressor.load(regressor.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.domain_p(new), p)


class RowRegressor(BandGapRegressor):
    """Takes rows of numbers, as scikit-learn's checks have them, and makes molecules of them.

    The numbers of a row displace the atoms of methane, and targets become gaps around 50 eV. All
    else is the regressor itself.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        # Random displacements of methane say little about the targets of the checks.
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> "RowRegressor":
        return super().fit(molecules_of_rows(X), gaps_of_targets(y))

    def predict(self, X: Any) -> Any:
        return 5 * (super().predict(molecules_of_rows(X)) - 50)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return RegressorMixin.score(self, X, y, sample_weight)


def gaps_of_targets(targets: Any) -> Any:
    return None if targets is None else 50 + np.asarray(targets, dtype=float) / 5


def molecules_of_rows(rows: Any) -> Any:
    structures = []
    for row in np.asarray(rows, dtype=float):
        atoms = molecule("CH4")
        displacements = np.zeros(atoms.positions.size)
        displacements[: row.size] = 0.1 * np.sin(row[: displacements.size] / 2)
        atoms.positions += displacements.reshape(-1, 3)
        structures.append(atoms)
    return structures


NO_FEATURES = "X has no columns: n_features_in_ has no meaning for a list of structures"
NO_ARRAY = "X is a list of structures, so that no array of numbers is validated"
NO_SPARSE = "no list of structures is a sparse matrix"
# Checks that do not apply, with the reason.
NOT_APPLICABLE = {
    "check_n_features_in": NO_FEATURES,
    "check_n_features_in_after_fitting": NO_FEATURES,
    "check_complex_data": NO_ARRAY,
    "check_estimators_empty_data_messages": "expects the sentence on an array without columns",
    "check_estimators_nan_inf": "expects the sentence on an array; the regressor names the atom",
    "check_estimator_sparse_tag": NO_SPARSE,
    "check_estimator_sparse_array": NO_SPARSE,
    "check_estimator_sparse_matrix": NO_SPARSE,
    "check_fit1d": "a list of structures has one dimension",
    "check_fit2d_predict1d": "a list of structures has one dimension",
    "check_fit2d_1sample": "expects other words; one structure is refused as too few, as anywhere",
}


def estimator_checks():
    """Return the checks of scikit-learn; repeats with other options of a check are slow tests."""
    names = set()
    parameters = []
    for estimator, check in estimator_checks_generator(
        RowRegressor(QUICK, preset="composition-neighbours"),
        expected_failed_checks=NOT_APPLICABLE,
        mark="skip",
    ):
        name = getattr(check, "func", check).__name__
        marks = [pytest.mark.slow] if name in names else []
        parameters.append(pytest.param(estimator, check, id=name, marks=marks))
        names.add(name)
    return parameters


@pytest.mark.parametrize("estimator, check", estimator_checks())
def test_estimator_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_regressor_itself_states_that_x_is_no_array():
    assert not get_tags(BandGapRegressor()).input_tags.two_d_array
    with pytest.warns(SkipTestWarning, match="requires input"):
        checks = list(estimator_checks_generator(BandGapRegressor()))
    for estimator, check in checks:
        check(estimator)


def gallium_and_zinc() -> tuple[list[Atoms], np.ndarray]:
    """Zincblende crystals and their gaps in eV; only one has zinc and sulfur."""
    gaps = {"GaAs": 1.4, "GaP": 2.3, "AlAs": 2.2, "AlP": 2.5, "InAs": 0.4, "InP": 1.3, "GaSb": 0.7}
    gaps |= {"InSb": 0.2, "AlSb": 1.6, "GaN": 3.2, "AlN": 5.0, "ZnS": 3.6}
    return [bulk(name, "zincblende", 5.5) for name in gaps], np.array(list(gaps.values()))


def test_element_that_a_fold_lacks_is_predicted_with_a_wide_interval_and_a_warning(tmp_path: Path):
    structures, gaps_eV = gallium_and_zinc()
    regressor = BandGapRegressor(QUICK, cache=tmp_path / "cache")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenElementWarning)
        scores = cross_val_score(regressor, structures, gaps_eV, cv=4, error_score="raise")
    assert np.isfinite(scores).all()

    regressor.fit(structures[:-1], gaps_eV[:-1])
    loaded = BandGapRegressor.load(regressor.save(tmp_path / "run"))
    for fitted_regressor in (regressor, loaded):
        with pytest.warns(UnseenElementWarning, match="1 of 2 structures contain S, Zn, which"):
            table = fitted_regressor.predict_table(structures[-2:])
        assert table.status[1] == "warning"
        assert table.domain[1].startswith("Contains S, Zn, never seen in the training set")
        assert table.mean_eV[1] == pytest.approx(gaps_eV[:-1].mean(), abs=1e-5)
        assert table.sd_new_eV[1] == pytest.approx(gaps_eV[:-1].std(), abs=1e-5)
        lower_eV, upper_eV = table.interval(0.9, "prediction")
        assert upper_eV[1] > gaps_eV[:-1].mean() + 1.5 * gaps_eV[:-1].std()
        assert lower_eV[1] == 0.0


def test_element_that_labels_with_metals_lack_has_their_share_of_metals():
    structures, gaps_eV = gallium_and_zinc()
    gaps_eV[:6] = 0.0
    regressor = BandGapRegressor("gaussian_process").fit(structures[:-1], gaps_eV[:-1])
    with pytest.warns(UnseenElementWarning):
        table = regressor.predict_table(structures[-2:])
    assert np.isfinite(table.mean_eV).all()
    if table.p_metal is not None:
        assert table.p_metal[1] == pytest.approx(6 / 11)
        assert table.quantiles_new[int(0.5 * 200) - 1, 1] == 0.0


def test_element_that_species_names_is_described():
    structures, gaps_eV = gallium_and_zinc()
    species = ("N", "Al", "P", "S", "Zn", "Ga", "As", "In", "Sb")
    regressor = BandGapRegressor(QUICK, species=species).fit(structures[:-1], gaps_eV[:-1])
    table = regressor.predict_table(structures[-1])
    assert "Contains S, Zn, never seen in the training set" in table.domain[0]
    assert "unknown to the descriptor" not in table.domain[0]
