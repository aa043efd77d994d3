"""`bandgap predict` of few structures, in one piece, gives the files of one in chunks."""

from pathlib import Path

import pytest

from bandgap.cli import prediction
from tests.unit.cli.conftest import Run

N = 8


def test_input_is_predicted_in_one_piece_up_to_the_limit(
    run: Run, model: Path, waters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phase "descriptors" is reported only by the prediction in one piece."""
    out = tmp_path / "t.csv"
    words = ("predict", "--model", model, "--structures", waters, "--out", out)
    tables = set()
    for in_memory in (N - 1, N, N + 1):
        monkeypatch.setattr(prediction, "IN_MEMORY", in_memory)
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert ("descriptors (" in done.stderr) == (in_memory >= N)
        tables.add(out.read_bytes())
    assert len(tables) == 1
    monkeypatch.setattr(prediction, "IN_MEMORY", 100)
    assert "descriptors (" not in run(*words, "--chunk", 1).stderr  # more than four chunks
