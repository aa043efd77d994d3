"""Stored structures with another interval: new numbers, everything else as it was."""

import io
from dataclasses import replace
from pathlib import Path

import ase.io
import pytest
from ase import Atoms

from bandgap.predictions.extxyz import LEVEL, predicted_blocks, with_interval
from bandgap.predictions.table import Predictions
from bandgap.structures import StructureRecord, read_structures
from tests.unit.predictions.three_predictions import three_predictions

CELL = 'Lattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3 pbc="T T T"'
TEXT = "".join(
    f"2\n{CELL} id={name}\nC 0 0 {z}\nO 0 0 {z + 1.1}\n" for z, name in enumerate(("a", "b", "c"))
)
IDS = ("interval=1", 'say "x y"', "c d")


@pytest.fixture
def records() -> list[StructureRecord]:
    return list(read_structures(TEXT.encode(), "three.extxyz"))


@pytest.fixture
def predictions() -> Predictions:
    return replace(three_predictions(), ids=IDS)


def write_extxyz(path: Path, predictions, records, *, level=LEVEL, kind="prediction") -> None:
    blocks = predicted_blocks(predictions, records, level=level, kind=kind)
    path.write_text("".join(blocks), encoding="utf-8", newline="\n")


def test_with_interval_replaces_only_the_predicted_values(tmp_path, predictions, records):
    path = tmp_path / "p.extxyz"
    input_path = tmp_path / "asked.extxyz"
    write_extxyz(path, predictions, records)
    write_extxyz(input_path, predictions, records, level=0.8, kind="credible")
    assert path.read_bytes() != input_path.read_bytes()
    assert with_interval(path, predictions, level=0.8, kind="credible") == input_path.read_bytes()
    assert with_interval(path, predictions, level=0.95, kind="prediction") == path.read_bytes()


def test_with_interval_of_calibrated_predictions_has_calibrated_ends(
    tmp_path, predictions, records
):
    path = tmp_path / "p.extxyz"
    write_extxyz(path, predictions, records)
    wider = replace(predictions, sd_new_eV=2 * predictions.sd_new_eV)
    frames = ase.io.read(
        io.StringIO(with_interval(path, wider, level=0.5, kind="prediction").decode()),
        ":",
        "extxyz",
    )
    lower, upper = wider.interval(0.5, "prediction")
    for i, frame in zip((0, 2), frames, strict=True):
        assert isinstance(frame, Atoms)
        assert frame.info["id"] == IDS[i]
        assert frame.info["predicted_sd_eV"] == pytest.approx(wider.sd_new_eV[i], abs=1e-6)
        assert (frame.info["lower_50_eV"], frame.info["upper_50_eV"]) == pytest.approx(
            (lower[i], upper[i]), abs=1e-6
        )
        assert "lower_95_eV" not in frame.info
