"""The benchmark of a choice by cross-validation: its choices, and a small run."""

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import quick_check
from benchmarks.kept_parts import Parts
from benchmarks.quick_check import Candidate, QuickCheck, choices_of, run_quick_check

needs_data = pytest.mark.skipif(
    not os.environ.get("BANDGAP_TEST_DATA"), reason="BANDGAP_TEST_DATA is not set"
)


def test_choice_is_by_the_validated_error_and_judged_by_the_tested_one() -> None:
    candidates = [
        Candidate("proposed", 0, validated_eV=0.5, tested_eV=0.4, seconds=1.0),
        Candidate("other", 0, validated_eV=0.4, tested_eV=0.7, seconds=2.0),
        Candidate("proposed", 1, validated_eV=0.5, tested_eV=0.4, seconds=1.0),
        Candidate("other", 1, validated_eV=0.6, tested_eV=0.3, seconds=2.0),
    ]
    choices = choices_of(candidates, proposed="proposed")
    np.testing.assert_allclose(choices.proposed_eV, [0.4, 0.4])
    np.testing.assert_allclose(choices.chosen_eV, [0.7, 0.4])
    np.testing.assert_allclose(choices.best_eV, [0.4, 0.3])
    assert (choices.n_changed, choices.seconds) == (1, 3.0)
    difference, half = choices.difference()
    # Differences 0.3 and 0: standard error 0.15, Student's 0.975 quantile of one degree 12.706.
    assert (difference, half) == pytest.approx((0.15, 12.706 * 0.15), rel=1e-4)


@needs_data
@pytest.mark.slow
def test_run_is_resumed_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    methods = ("gaussian_process", "kernel_ridge")
    monkeypatch.setitem(quick_check.CANDIDATES, "perovskites", methods)
    data = Path(os.environ["BANDGAP_TEST_DATA"])
    config = QuickCheck(("perovskites",), seeds=(0,), n_folds=2)
    file = tmp_path / "fits.jsonl"
    first = list(run_quick_check("perovskites", data, config, parts=Parts(file)))
    parts = Parts(file)
    assert list(run_quick_check("perovskites", data, config, parts=parts)) == first
    assert parts.n_resumed == 2
    assert [candidate.method for candidate in first] == list(methods)
    assert all(0.1 < c.tested_eV < c.validated_eV < 0.6 for c in first)
