"""Progress on the terminal and in logs."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

from bandgap.cli.bars import _PhaseBars, progress_bars
from bandgap.foundation.progress import Update


def test_progress_in_a_pipe_is_one_line_for_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars() as progress:
        for done in range(3):
            progress(Update("warm-up", done, 1000))
            progress(Update("sampling", done))
    captured = capsys.readouterr()
    assert captured.err == "warm-up (1,000)\nsampling\n"
    assert captured.out == ""


def test_progress_on_a_terminal_keeps_one_bar_for_a_phase_that_comes_back() -> None:
    bars = Bars("{task.description} {task.completed} {task.fields[figures]}", console=Console(file=io.StringIO()))
    progress = _PhaseBars(bars)
    for update in (Update("warm-up", 1, 4), Update("sampling", 1, 4), Update("warm-up", 3, 4, values={"rhat": 1.02})):
        progress(update)
    assert [(task.description, task.completed) for task in bars.tasks] == [("warm-up", 3), ("sampling", 1)]
    assert bars.tasks[0].fields["figures"] == "rhat 1.02"
