"""Stored predictions: the same bits come back, and what cannot be read says what to do."""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.store import load_predictions, save_predictions
from bandgap.predictions.table import Predictions
from tests.unit.predictions.three_predictions import three_predictions


@pytest.fixture
def predictions() -> Predictions:
    return three_predictions()


def test_save_predictions_and_load_gives_the_same_bits(predictions, tmp_path):
    path = tmp_path / "predictions.safetensors"
    save_predictions(path, predictions)
    loaded = load_predictions(path)
    for name in predictions.__dataclass_fields__:
        value = getattr(predictions, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(loaded, name), value)
        else:
            assert getattr(loaded, name) == value


def test_load_predictions_includes_conformal_scores(predictions, tmp_path):
    path = tmp_path / "predictions.safetensors"
    scores = ConformalScores(("a", "ü\n", "c"), np.array([0.3, 1.7, 1 / 3]))
    save_predictions(path, replace(predictions, conformal=scores))
    loaded = load_predictions(path)
    assert loaded.conformal is not None and loaded.conformal.ids == scores.ids
    np.testing.assert_array_equal(loaded.conformal.scores, scores.scores)
    np.testing.assert_allclose(
        loaded.interval(0.6, "conformal"),
        [loaded.mean_eV + sign * 1.7 * loaded.sd_new_eV for sign in (-1, 1)],
    )


@pytest.mark.parametrize("content", [b"", b"no such thing", None], ids=["empty", "text", "absent"])
def test_load_predictions_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "predictions.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        ArtifactError, match=r"not readable as stored predictions .* Run predict again"
    ):
        load_predictions(path)
