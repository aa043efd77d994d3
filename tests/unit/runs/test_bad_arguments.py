"""Bad arguments of the Python interface get typed errors with the command line's sentences."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule

import bandgap
from bandgap import BandGapRegressor, LabelledSet, PredictRequest, TransferRequest
from bandgap.foundation.errors import ArtifactError, BandgapError, ConfigError, InputError
from bandgap.runs.regressor import InvalidDataError, NotFittedError
from tests.unit.conftest import gaps_of, make_records

RECORDS = make_records(24, seed=1, prefix="target")
GAPS = gaps_of(RECORDS, seed=2)
QUICK = {"method": "kernel_ridge", "n_test": 4}


def gaps_with(value: Any) -> Any:
    """Return the gaps with another value for the third one."""
    return [*GAPS[:2].tolist(), value, *GAPS[3:].tolist()]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    data = LabelledSet(RECORDS, GAPS)
    return bandgap.transfer_run(None, data, TransferRequest(**QUICK), out=out)


@pytest.fixture(scope="module")
def fitted() -> BandGapRegressor:
    return BandGapRegressor("kernel_ridge").fit(RECORDS, GAPS)


NO_GAP = "is not a band gap in target-02"
BAD_GAPS: list[tuple[Any, str]] = [
    (gaps_with(-1.0), f"in eV {NO_GAP} (-1). Accepted: 0 to 100 eV."),
    (gaps_with("3.1 eV"), "found '3.1 eV'. Accepted: one number in eV for each structure"),
    (gaps_with([1.0, 2.0]), "found an object of type list. Accepted: one number in eV"),
    (GAPS[:3], "24 structures but 3 gaps: one gap"),
    (np.ones((24, 2)), "found an array of shape (24, 2). Accepted: one number in eV"),
    ("gaps.csv", "found 'gaps.csv'. Accepted: one number in eV for each structure"),
]


@pytest.mark.parametrize("gaps_eV, message", BAD_GAPS)
def test_values_that_are_not_gaps_are_refused(gaps_eV, message: str, tmp_path: Path):
    with pytest.raises(InputError) as of_run:
        data = LabelledSet(RECORDS, gaps_eV)
        bandgap.transfer_run(None, data, TransferRequest(**QUICK), out=tmp_path / "run")
    with pytest.raises(InvalidDataError) as of_regressor:
        BandGapRegressor("kernel_ridge").fit(RECORDS, gaps_eV)
    assert message in str(of_run.value)
    assert message in str(of_regressor.value)
    assert not (tmp_path / "run").exists()


def transfer(out: Any, **changes: Any) -> Any:
    arguments = {
        "source": None,
        "data": LabelledSet(RECORDS, GAPS),
        "request": TransferRequest(**QUICK),
    }
    return bandgap.transfer_run(**(arguments | changes), out=out)


def foreign_folder(parent: Path) -> Path:
    (parent / "thesis").mkdir()
    (parent / "thesis" / "thesis.tex").write_text("...")
    return parent / "thesis"


CALLS: list[tuple[Callable[..., Any], type[BandgapError], str]] = [
    (lambda t: TransferRequest(n=20.0), ConfigError, "n: found 20.0. Accepted: a whole number"),
    (
        lambda t: transfer(t / "r", source=t / "no"),
        ArtifactError,
        "no: there is no such folder",
    ),
    (lambda t: transfer(t / "r", source=5), InputError, "source: found 5. Accepted: the path"),
    (lambda t: transfer(t / "r", data=RECORDS), InputError, "Accepted: a bandgap.LabelledSet."),
    (lambda t: transfer(t / "r", request=QUICK), InputError, "a bandgap.TransferRequest."),
    (lambda t: transfer(5), InputError, "out: found 5. Accepted: the path of a folder."),
    (lambda t: transfer(None), InputError, "out: found None. Accepted: the path of a folder."),
    (lambda t: transfer(foreign_folder(t)), InputError, "holds other files, such as thesis.tex"),
    (
        lambda t: transfer(t / "r", data=LabelledSet([2.5], [3.0])),
        InputError,
        "structure 1 is 2.5. Accepted: ase.Atoms",
    ),
    (
        lambda t: transfer(t / "r", data=LabelledSet(RECORDS, GAPS, 5)),
        InputError,
        "level_of_theory: found 5. Accepted: a text such as PBE.",
    ),
]


@pytest.mark.parametrize("call, kind, message", CALLS, ids=[message for *_, message in CALLS])
def test_arguments_of_a_transfer_are_checked(call, kind, message: str, tmp_path: Path):
    with pytest.raises(kind) as error:
        call(tmp_path)
    assert message in str(error.value)


PREDICTIONS: list[tuple[Callable[..., Any], type[BandgapError], str]] = [
    (lambda run: bandgap.predict_run("no", RECORDS), ArtifactError, "no: there is no such folder"),
    (lambda run: bandgap.predict_run(5, RECORDS), InputError, "found 5. Accepted: the path"),
    (lambda run: bandgap.predict_run(run, "no.cif"), InputError, "no.cif: there is no such file"),
    (
        lambda run: bandgap.predict_run(run, RECORDS, {"probability": 0.9}),
        InputError,
        "request: found an object of type dict. Accepted: a bandgap.PredictRequest.",
    ),
    (
        lambda run: bandgap.predict_run(run, RECORDS, level=2),
        ConfigError,
        "predict_run has no argument 'level'. It is a setting of the request:"
        " request=bandgap.PredictRequest(probability=...).",
    ),
    (
        lambda run: bandgap.predict_run(run, RECORDS, foo=2),
        ConfigError,
        "predict_run has no argument 'foo'. Accepted: model_folder, structures, request, ",
    ),
    (
        lambda run: bandgap.refit_run(run, None, RECORDS, seed=3),
        ConfigError,
        "refit_run has no argument 'seed'. Accepted: run, source, data, out, ",
    ),
    (
        lambda run: bandgap.predict_run(run, RECORDS, baseline_eV="pbe"),
        InputError,
        "baseline_eV: found 'pbe'. Accepted: one number in eV",
    ),
    (
        lambda run: bandgap.predict_run(run, RECORDS, baseline_eV=GAPS.tolist()),
        InputError,
        "this run was trained without one. Leave it out.",
    ),
    (lambda run: PredictRequest(probability=95), ConfigError, "For 95 % write 0.95."),
    (lambda run: bandgap.load_run(None), InputError, "found None. Accepted: the path of a folder"),
    (
        lambda run: bandgap.predict_run(run, RECORDS).interval("95"),
        ConfigError,
        "level is '95'. Accepted: 0.01 to 0.99",
    ),
    (
        lambda run: bandgap.predict_run(run, RECORDS).to_frame(0.9, 3),
        ConfigError,
        "interval is '3'. Accepted: prediction",
    ),
]


@pytest.mark.parametrize(
    "call, kind, message", PREDICTIONS, ids=[message for *_, message in PREDICTIONS]
)
def test_arguments_of_a_prediction_are_checked(call, kind, message: str, run_folder: Path):
    with pytest.raises(kind) as error:
        call(run_folder)
    assert message in str(error.value)


TOO_CLOSE = molecule("CH4")
TOO_CLOSE.positions[1] = TOO_CLOSE.positions[0] + 0.1

REGRESSOR: list[tuple[Callable[..., Any], type[BandgapError], str]] = [
    (lambda r, t: r.predict([RECORDS[0], TOO_CLOSE]), InvalidDataError, "structure 2 (structure-2"),
    (lambda r, t: r.predict([TOO_CLOSE]), InvalidDataError, "are 0.17 A apart"),
    (lambda r, t: r.predict([Atoms("X")]), InvalidDataError, "cannot be used: "),
    (lambda r, t: r.predict([]), InvalidDataError, "X contains no structures. Give at least one."),
    (lambda r, t: r.predict(None), InvalidDataError, "structures: found None. Accepted: one or"),
    (lambda r, t: r.predict_interval(RECORDS, 95), ConfigError, "For 95 % write 0.95."),
    (lambda r, t: r.predict_interval(RECORDS, kind="x"), ConfigError, "interval is 'x'. Accepted"),
    (lambda r, t: r.predict_interval(RECORDS, kind="conformal"), ConfigError, "conformal"),
    (lambda r, t: r.score(RECORDS, GAPS[:2]), InvalidDataError, "24 structures but 2 gaps"),
    (lambda r, t: r.save(5), InputError, "folder: found 5. Accepted: the path of a folder."),
    (lambda r, t: r.save(foreign_folder(t)), InputError, "holds other files, such as thesis.tex"),
    (
        lambda r, t: BandGapRegressor.load(t / "no"),
        ArtifactError,
        "there is no such folder",
    ),
    (lambda r, t: BandGapRegressor().predict(RECORDS), NotFittedError, "is not fitted yet. Call"),
    (lambda r, t: BandGapRegressor().save(t / "run"), NotFittedError, "is not fitted yet. Call"),
    (lambda r, t: BandGapRegressor().fit(RECORDS, None), InvalidDataError, "requires y to be pass"),
    (
        lambda r, t: BandGapRegressor().fit(RECORDS, gaps_with(np.nan)),
        InvalidDataError,
        "y: the gap of structure 3 (target-02) is NaN. Leave structures without a gap out.",
    ),
    (
        lambda r, t: BandGapRegressor().fit([*RECORDS, TOO_CLOSE], [*GAPS, 3.0]),
        InvalidDataError,
        "structure 25 (structure-25) cannot be used: atoms",
    ),
    (
        lambda r, t: BandGapRegressor("last_layer_ridge", source="demo").fit(
            [*RECORDS, molecule("SiH4")], [*GAPS, 3.0]
        ),
        InvalidDataError,
        "structure 25 (structure-25) cannot be used: the descriptor has no Si.",
    ),
    (
        lambda r, t: BandGapRegressor(cache=5).fit(RECORDS, GAPS),
        InputError,
        "cache: found 5. Accepted: the path of a folder.",
    ),
]


@pytest.mark.parametrize(
    "call, kind, message", REGRESSOR, ids=[message for *_, message in REGRESSOR]
)
def test_arguments_of_the_regressor_are_checked(call, kind, message: str, fitted, tmp_path: Path):
    with pytest.raises(kind) as error:
        call(fitted, tmp_path)
    assert message in str(error.value)


def test_file_with_several_structures_is_no_item_of_x(fitted, tmp_path: Path):
    for record in RECORDS[:2]:
        record.atoms.write(tmp_path / "two.xyz", format="xyz", append=True)
    with pytest.raises(InvalidDataError, match="contains 2 structures; here every item is one"):
        fitted.predict([tmp_path / "two.xyz"])
    assert len(bandgap.predict_run(fitted.save(tmp_path / "run"), tmp_path / "two.xyz")) == 2
