"""Progress on the terminal and in logs."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

from bandgap.cli import bars as bars_module
from bandgap.cli.bars import EpochClock, _PhaseBars, progress_bars
from bandgap.foundation.progress import RATE, Update


def test_progress_in_a_pipe_is_one_line_for_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars() as progress:
        for done in range(3):
            progress(Update("warm-up", done, 1000))
            progress(Update("sampling", done))
    captured = capsys.readouterr()
    assert captured.err == "warm-up (1,000)\nsampling\n"
    assert captured.out == ""


def test_progress_on_a_terminal_keeps_one_bar_for_a_phase_that_comes_back() -> None:
    bars = Bars(
        "{task.description} {task.completed} {task.fields[figures]}",
        console=Console(file=io.StringIO()),
    )
    progress = _PhaseBars(bars)
    for update in (
        Update("warm-up", 1, 4),
        Update("sampling", 1, 4),
        Update("warm-up", 3, 4, values={"rhat": 1.02}),
    ):
        progress(update)
    assert [(task.description, task.completed) for task in bars.tasks] == [
        ("warm-up", 3),
        ("sampling", 1),
    ]
    assert bars.tasks[0].fields["figures"] == "rhat 1.02"


def test_bar_shows_rate_and_remaining_time() -> None:
    bars = Bars("{task.description} {task.fields[figures]}", console=Console(file=io.StringIO()))
    progress = _PhaseBars(bars)
    progress(Update("predicting", 0, 100))
    progress(Update("predicting", 40, 100, values={RATE: 0.5}))
    assert bars.tasks[0].fields["figures"] == "0.5 a second, about 2 min 0 s left"
    progress(Update("predicting", 100, 100, values={RATE: 0.5}))
    assert bars.tasks[0].fields["figures"] == "0.5 a second"


def test_time_of_an_epoch_is_the_median_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    passed = []
    monkeypatch.setattr(bars_module.time, "perf_counter", lambda: now[0])
    clock = EpochClock(passed.append, "training")
    assert clock.sentence == ""
    updates = [
        ("reading", 1, 5.0),
        *(("training", k, t) for k, t in enumerate((90.0, 2.0, 3.0, 9.0), start=1)),
    ]
    for phase, done, seconds in updates:
        now[0] += seconds
        clock(Update(phase, done, 4))
    now[0] += 50.0
    clock(Update("Fisher information", 1, 2))
    assert clock.sentence == "4 epochs, 3.0 s each (median)"
    assert len(passed) == 6
