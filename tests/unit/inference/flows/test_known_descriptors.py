"""Distances and residuals of descriptors among known ones."""

import numpy as np

from bandgap.inference.flows.known_descriptors import fit_known_descriptors


def test_rows_in_the_span_of_few_components_have_no_residual() -> None:
    """What is left is rounding of float32 descriptors, which would depend on the chunk."""
    random = np.random.default_rng(0)
    mixing = random.normal(size=(3, 40))
    known_rows = (random.normal(size=(200, 3)) @ mixing + 5.0).astype(np.float32).astype(np.float64)
    inside = (random.normal(size=(20, 3)) @ mixing + 5.0).astype(np.float32)
    outside = inside + 0.01 * random.normal(size=inside.shape)
    fitted = fit_known_descriptors(known_rows, np.arange(200) % 5, seed=0)
    np.testing.assert_array_equal(fitted.scores(inside)[1], 0.0)
    _, residuals = fitted.scores(outside)
    # Most of the noise, of norm 0.01 sqrt(40), is outside of the three components.
    assert np.all((residuals > 0.03) & (residuals < 0.1))
