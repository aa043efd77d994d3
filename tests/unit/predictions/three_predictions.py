"""Predictions of three structures, the second refused, the third with a warning."""

import numpy as np

from bandgap.predictions.table import Predictions, predictions_from_draws


def three_predictions() -> Predictions:
    """Return 60 draws for each, with names and problems as uploads have them."""
    rng = np.random.default_rng(17)
    means = rng.normal(2.0, 0.3, (60, 3))
    noise = rng.uniform(0.1, 0.2, 60)
    return predictions_from_draws(
        means[:, [0, 2]],
        noise,
        ids=("00011", "=cmd()", "-3"),
        files=("a.cif", "b,\r\n.cif", 'c "x".cif'),
        formulas=("C6H6", "", "NaCl"),
        domain=("ok", "", "Contains Br, never seen by the source model"),
        status=("ok", "refused", "warning"),
        problem=("", "atom C7 has occupancy 0.5; remove it", "no hydrogen atoms in the file"),
        level_of_theory="PBE",
    )
