"""Intervals that a request withholds or widens by the p-value of the domain."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from bandgap.runs.prediction import predict_run
from bandgap.runs.regressor import BandGapRegressor
from bandgap.runs.requests import PredictRequest
from bandgap.structures.formats.xyz import extxyz_blocks
from tests.transfers import transfer_labelled
from tests.unit.conftest import gaps_of, make_records
from tests.unit.jobs.service.conftest import serving


@pytest.fixture(scope="module")
def run(source_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = make_records(65, seed=5, prefix="known")
    return transfer_labelled(
        source_folder,
        records,
        gaps_of(records, seed=6),
        method="last_layer_ridge",
        n=60,
        n_test=5,
        out=tmp_path_factory.mktemp("run") / "dense",
        device="cpu",
    )


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[httpx.Client]:
    with serving([run]) as address, httpx.Client(base_url=address, timeout=60) as http_client:
        yield http_client


@pytest.fixture(scope="module")
def body() -> str:
    return "".join(extxyz_blocks(RECORDS, [{}] * len(RECORDS)))


RECORDS = make_records(6, seed=9, prefix="new")


def test_request_changes_intervals_as_a_prediction_request_does(
    run: Path, client: httpx.Client, body: str
) -> None:
    request = PredictRequest(withhold_below_p=0.3, widen_below_p=0.9, widen_factor=3.0)
    expected = predict_run(run, RECORDS, request)
    plain = predict_run(run, RECORDS)
    path = "/predict?name=a.xyz&withhold_below_p=0.3&widen_below_p=0.9&widen_factor=3"
    rows = client.post(path, content=body).json()["rows"]
    sds = [np.nan if row["sd_eV"] is None else row["sd_eV"] for row in rows]
    np.testing.assert_allclose(sds, expected.sd_new_eV, rtol=1e-3)
    assert not np.allclose(expected.sd_new_eV, plain.sd_new_eV, equal_nan=True)
    lower, upper = BandGapRegressor.load(run).predict_interval(
        RECORDS, withhold_below_p=0.3, widen_below_p=0.9, widen_factor=3.0
    )
    np.testing.assert_allclose([lower, upper], expected.interval(0.95))
