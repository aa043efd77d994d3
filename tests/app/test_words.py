"""Sentences of the dashboard, word for word."""

import numpy as np
import pytest

from app.components.posterior import posterior_words
from app.components.posterior.pool_view import pool_sentence
from app.components.shared import estimate_words, words
from bandgap.foundation.progress import Update
from bandgap.jobs.estimates import Estimate
from bandgap.jobs.store import Event

RNG = np.random.default_rng(0)


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
        seq=1,
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


def test_layer_sentence_names_what_stayed_and_what_moved() -> None:
    text = posterior_words.layer_sentence(RNG.dirichlet([5, 5, 90], 4000), n=300)
    assert text == (
        "Layers 1 and 2 stay close to the source model (c1 = 0.05 +/- 0.02, c2 = 0.05 +/- 0.02); "
        "the output layer is re-learned for your crystals (c3 = 0.90 +/- 0.03)."
    )


def test_layer_sentence_of_a_posterior_equal_to_its_prior_draws_no_conclusion() -> None:
    text = posterior_words.layer_sentence(RNG.dirichlet([1, 1, 1], 4000), n=70)
    assert text == (
        "With 70 labelled structures the posterior of c hardly differs from its prior: "
        "the data cannot say yet which layers moved."
    )


def test_layer_sentence_without_a_dominant_layer_names_all_layers() -> None:
    text = posterior_words.layer_sentence(RNG.dirichlet([30, 40, 30], 4000), n=300)
    assert text.startswith(
        "Layers 1 and 2 and the output layer take a part of the change (c1 = 0.30 +/- 0.05"
    )


def test_convergence_sentence_of_chains_that_agree() -> None:
    text = posterior_words.convergence_sentence(
        {"tau": 1.003, "c1": 1.001}, {"tau": 1240.0, "c1": 2000.0}
    )
    assert text == "Chains agree (R-hat 1.003, 1,240 effective draws)."


@pytest.mark.parametrize("rhat", [1.12, float("nan")])
def test_convergence_sentence_of_chains_that_disagree_names_what_and_what_to_do(
    rhat: float,
) -> None:
    text = posterior_words.convergence_sentence({"c1": 1.0, "tau": rhat}, {"tau": 40.0})
    assert text.startswith(
        f"The chains have not agreed yet on tau (R-hat {rhat:.3f}, want below 1.05)."
    )
    assert "usable for a look, not for a table" in text
    assert not posterior_words.converged({"c1": 1.0, "tau": rhat})


def test_names_from_users_are_shown_unchanged():
    assert words.escaped("a*b_[c](d) 1.0") == r"a\*b\_\[c\]\(d\) 1.0"


def test_first_estimate_of_a_method_names_its_range_and_what_is_not_counted():
    assert estimate_words.estimate_sentence({"NPTL": Estimate(33.0)}) == (
        "Estimated time: about 35 s (15 s to 1 min), from costs measured on another machine; what "
        "is computed for the first time takes longer."
    )


def test_estimate_of_several_methods_is_their_sum_and_names_unmeasured_ones():
    estimates = {"A": Estimate(260.0, 3), "B": Estimate(130.0, 1)}
    assert estimate_words.estimate_sentence(estimates | {"C": None}) == (
        "Estimated time: about 6 min 30 s (5 min to 8 min 30 s), from 4 earlier runs on this "
        "server. Not counted, as nobody has measured it: C."
    )


def test_estimate_for_a_gpu_notes_that_costs_are_of_a_cpu():
    caveat = "the CPU of another machine"
    for runs, expected in ((0, True), (2, False)):
        estimates = {"A": Estimate(40.0, runs)}
        assert (caveat in estimate_words.estimate_sentence(estimates, device="cuda")) == expected
        assert caveat not in estimate_words.estimate_sentence(estimates, device="cpu")


def test_estimate_of_a_source_names_epochs_range_and_what_it_rests_on():
    assert estimate_words.source_sentence(Estimate(130.0, 2), epochs=150) == (
        "Estimated time: about 2 min (1 min 30 s to 3 min) if all 150 epochs are needed, from 2 "
        "earlier trainings on this server."
    )
    assert "not known before the first training" in estimate_words.source_sentence(None, epochs=1)


def test_estimate_without_known_methods_reports_this():
    assert estimate_words.estimate_sentence({"C": None}).startswith(
        "How long C will take is not known yet"
    )


def test_weights_of_methods_read_largest_first_with_what_became_of_their_spread() -> None:
    weights = {"Kernel ridge": 0.614, "Gradient boosting": 0.386}
    text = "Kernel ridge carries 61 % of the answer; Gradient boosting 39 %."
    assert pool_sentence(weights, spread=1.0) == f"{text} The combined interval is not scaled."
    narrower = pool_sentence(weights, spread=0.94)
    assert narrower == (
        f"{text} The combined interval was made 6 % narrower, which fits the gaps of left-out "
        "crystals better."
    )
    assert "4 % wider" in pool_sentence(weights, spread=1.04)
