"""A run with metals among its labels, served."""

import httpx
import numpy as np

from bandgap.runs.prediction import predict_run
from bandgap.structures.formats.xyz import extxyz_blocks
from tests.transfers import transfer_labelled
from tests.unit.conftest import gaps_of, make_records
from tests.unit.jobs.service.conftest import serving


def test_answer_has_the_probability_of_a_metal_and_no_interval_below_zero(tmp_path) -> None:
    records = make_records(60, seed=5, prefix="labelled")
    gaps = gaps_of(records, seed=6)
    run = transfer_labelled(
        None,
        records,
        np.maximum(gaps - np.median(gaps), 0.0),
        out=tmp_path / "run",
        level_of_theory="made up",
        method="kernel_ridge",
        n=50,
        n_test=10,
    )
    new_records = make_records(12, seed=9, prefix="new")
    expected = predict_run(run, new_records)
    body = "".join(extxyz_blocks(new_records, [{}] * len(new_records)))
    with serving([run]) as address:
        answer = httpx.post(f"{address}/predict?name=a.xyz", content=body, timeout=60)
    rows = answer.json()["rows"]
    p_metal = [row["p_metal"] for row in rows]
    np.testing.assert_allclose(p_metal, expected.p_metal, rtol=0, atol=1e-3)
    assert np.ptp(p_metal) > 0.2
    lower = np.array([row["lower_eV"] for row in rows])
    np.testing.assert_allclose(lower, expected.interval(0.95)[0], rtol=0, atol=1e-3)
    assert (lower >= 0).all() and (lower == 0).any()
