"""Quantities: the message on chains that disagree."""

import math

from bandgap.foundation import quantities


def test_quantity_with_the_largest_rhat_is_named_and_nan_is_the_largest():
    assert quantities.worst_of({"tau": 1.2, "c1": math.nan, "c2": 3.0}) == "c1"
    assert quantities.disagreement({"tau": 1.05, "c1": 1.0}) is None
    message = quantities.disagreement({"tau": 1.06, "fit": 1.2, "predictions": 1.1})
    assert message is not None
    assert message.startswith(
        "The chains have not agreed yet on the fitted gaps of the training structures "
        "(R-hat 1.200, want below 1.05)."
    )
