"""Target data that no method can learn from are refused in words."""

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.transfer import TargetData

P = 15  # features


def test_labels_that_are_all_the_same_are_refused():
    with pytest.raises(
        InputError, match="all 8 labels are 2.5 eV. A transfer needs gaps that differ"
    ):
        TargetData(np.zeros((8, P)), np.full(8, 2.5))


@pytest.mark.parametrize("where", ["features", "gaps"])
def test_values_that_are_not_finite_are_refused(where):
    x, y = np.zeros((8, P)), np.arange(8.0)
    (x if where == "features" else y)[3] = np.nan
    with pytest.raises(
        InputError, match="features or gaps of the training rows are not finite. Leave out refused"
    ):
        TargetData(x, y)
