"""Details of predictions: bounded size, saving and loading, and errors for damaged files."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.predictions import details as prediction_details
from bandgap.predictions.details import MAX_DRAWS, PredictionDetails, joint_subset
from bandgap.predictions.store import load_details, save_details


def details() -> PredictionDetails:
    return PredictionDetails(
        nearest=("a", "", "c"),
        n_atoms=np.array([3, 0, 12]),
        distance=np.array([0.1, np.nan, 0.3]),
        percentile=np.array([0.5, np.nan, 1.0]),
        labelled=np.array([False, False, True]),
        joint_rows=np.array([0]),
        means_eV=np.array([[1.0], [2.0]], dtype=np.float32),
        noise_variance=np.array([0.04]),
    )


def test_details_survive_saving_and_loading(tmp_path: Path) -> None:
    save_details(tmp_path / "d", details())
    back = load_details(tmp_path / "d")
    assert back.nearest == ("a", "", "c")
    for name in (
        "n_atoms",
        "distance",
        "percentile",
        "labelled",
        "joint_rows",
        "means_eV",
        "noise_variance",
    ):
        np.testing.assert_array_equal(getattr(back, name), getattr(details(), name))
        assert getattr(back, name).dtype == getattr(details(), name).dtype


@pytest.mark.parametrize("content", [b"\x00 damaged", b""])
def test_load_details_damaged_file_raises_with_remedy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "d").write_bytes(content)
    with pytest.raises(
        ArtifactError, match="not readable as details of predictions .* Run predict again"
    ):
        load_details(tmp_path / "d")


def test_joint_subset_thins_draws_evenly_and_keeps_rows_aligned() -> None:
    means = np.arange(1000.0)[:, None] + np.array([0.0, 0.25, 0.5])
    joint_rows, drawn, noise = joint_subset(means, [1.0, 2.0, 3.0], [4, 7, 9])
    assert drawn.shape == (MAX_DRAWS, 3) and drawn.dtype == np.float32
    assert (drawn[0, 0], drawn[-1, 0]) == (0.0, 999.0)
    np.testing.assert_array_equal(drawn[:, 1] - drawn[:, 0], 0.25)
    assert list(joint_rows) == [4, 7, 9] and list(noise) == [1.0, 2.0, 3.0]


def test_joint_subset_of_too_many_structures_is_always_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prediction_details, "MAX_NUMBERS", 40)
    means = np.tile(np.arange(100.0), (4, 1))
    joint_rows, drawn, noise = joint_subset(means, np.arange(100.0), np.arange(100))
    assert drawn.size == 40 and np.all(np.diff(joint_rows) > 0)
    np.testing.assert_array_equal(drawn[0], joint_rows)
    np.testing.assert_array_equal(noise, joint_rows)
    np.testing.assert_array_equal(
        joint_subset(means, np.arange(100.0), np.arange(100))[0], joint_rows
    )
