"""Sentences of the dashboard, word for word."""

import pytest

from app.components.result.learned_words import layer_sentence
from app.components.shared import words
from bandgap.foundation.progress import Update
from bandgap.jobs.store import Event


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (130, "2 min 10 s"),
        (3600, "1 h 0 min"),
        (7290, "2 h 1 min"),
    ],
)
def test_duration_is_formatted_in_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def progress(done: int, total: int | None) -> Event:
    return Event(
        time=100.0,
        kind="progress",
        update=Update("sampling", done, total),
        since=40.0,
        since_done=0,
    )


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (0, None, "1 min so far"),
        (40, 1000, "40 of 1,000"),
        (500, 1000, "500 of 1,000 · about 1 min left"),
        (1000, 1000, "1,000 of 1,000"),
    ],
    ids=["unknown total", "too early to say", "half", "done"],
)
def test_progress_line_shows_the_remaining_time_only_when_known(
    done: int, total: int | None, text: str
) -> None:
    assert words.progress_line(progress(done, total), now=100.0) == text


def test_layers_are_told_only_where_the_interval_of_their_part_excludes_zero() -> None:
    parts = [[0.1, 0.05, 0.15], [0.01, -0.03, 0.06], [0.31, 0.2, 0.4]]
    correction = {"needed_eV": 0.5, "made_eV": [0.42, 0.35, 0.5], "layers_eV": parts}
    assert layer_sentence(correction, n=200) == (
        "Held-out gaps ask for a correction of 0.50 eV; the transfer gives 0.42 eV (95 %: 0.35 to "
        "0.50): 0.10 eV (95 %: 0.05 to 0.15) by layer 1, 0.31 eV (95 %: 0.20 to 0.40) by the "
        "output layer. Cannot be told from 200 labels yet: layer 2, 0.01 eV (95 %: -0.03 to "
        "0.06)."
    )
    nothing = {**correction, "made_eV": [0.02, -0.04, 0.08]}
    assert "cannot be told from 200 labels yet" in layer_sentence(nothing, n=200)
    assert "by the output layer" not in layer_sentence(nothing, n=200)
    assert "has none" in layer_sentence(None, n=200)
