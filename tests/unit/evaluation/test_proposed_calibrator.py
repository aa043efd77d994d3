"""A calibrator is proposed where cross-fitting shows that it helps, and not where it does not."""

import numpy as np
import pytest

from bandgap.evaluation.calibrators import fit_calibrator
from bandgap.evaluation.curve_verdict import curve_verdict
from bandgap.evaluation.proposed_calibrator import areas_on_others, proposed_kind
from bandgap.evaluation.reliability import coverage_of
from tests.unit.evaluation.test_paired import normal_heldout

N = 320
STATED_EV = 0.3


def heldout_of(errors_eV):
    gaps = np.random.default_rng(1).normal(9.0, 1.0, N)  # far from zero, where intervals are cut
    return normal_heldout(errors_eV, STATED_EV, gaps=gaps)


@pytest.mark.parametrize("sd_eV", [0.15, 0.5])
def test_calibrator_is_proposed_for_one_wrong_width_and_its_default_does_not_make_it_worse(sd_eV):
    heldout = heldout_of(np.random.default_rng(0).normal(0.0, sd_eV, N))
    kind = proposed_kind(heldout)
    assert kind is not None
    before, after = areas_on_others(heldout, fit_calibrator(heldout, kind))
    assert after < before / 2


def test_no_calibrator_is_proposed_for_a_wrong_shape_of_the_right_width():
    rng = np.random.default_rng(0)
    is_far = rng.random(N) < 0.15
    errors = np.where(is_far, rng.normal(0.0, 0.9, N), rng.normal(0.0, 0.24, N))
    heldout = heldout_of(errors)
    assert curve_verdict(coverage_of(heldout, "prediction")).deviates
    assert proposed_kind(heldout) is None


def test_no_calibrator_is_proposed_for_calibrated_intervals_or_few_structures():
    errors = np.random.default_rng(0).normal(0.0, STATED_EV, N)
    assert proposed_kind(heldout_of(errors)) is None
    assert proposed_kind(heldout_of(3 * errors).rows(np.arange(28))) is None
