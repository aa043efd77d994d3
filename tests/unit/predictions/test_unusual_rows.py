"""Unusual structures of a batch: the Benjamini-Hochberg procedure, counts and sentences."""

import numpy as np
import pytest

from bandgap.predictions.unusual_rows import (
    benjamini_hochberg,
    discovery_sentence,
    unusual_counts,
    unusual_facts,
    unusual_sentence,
)

P = np.array([0.5, 0.03, 0.01, np.nan, 0.055, 0.2])


def test_benjamini_hochberg_flags_the_small_p_values_of_a_batch() -> None:
    """Limits of five values at 10 % are 0.02, 0.04, 0.06, 0.08 and 0.1."""
    assert benjamini_hochberg(P, rate=0.1).tolist() == [False, True, True, False, True, False]
    assert not benjamini_hochberg(np.array([0.3, np.nan])).any()
    assert benjamini_hochberg(np.empty(0)).size == 0


def test_share_of_false_discoveries_is_below_the_rate() -> None:
    """The mean over 400 batches has a standard error of about 0.01."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(400):
        p = rng.random(100)
        p[:20] *= 0.01
        flagged = benjamini_hochberg(p, rate=0.1)
        shares.append(flagged[20:].sum() / max(flagged.sum(), 1))
    assert 0.05 < np.mean(shares) < 0.1 + 0.02


def test_counts_tell_refused_structures_from_those_that_are_not_assessable() -> None:
    p = np.array([0.04, 0.05, 0.6, np.nan, np.nan])
    status = ["ok", "warning", "ok", "warning", "refused"]
    assert unusual_counts(p, status) == (2, 3, 1)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((12, 300, 0), "12 of 300, where about 15 are expected by chance."),
        ((1, 20, 3), "1 of 20, where about 1 is expected by chance; 3 not assessable."),
        ((0, 3, 0), "0 of 3, where about 0.15 are expected by chance."),
        ((2_000, 30_000, 0), "2,000 of 30,000, where about 1,500 are expected by chance."),
    ],
)
def test_sentence_has_the_number_expected_by_chance(
    counts: tuple[int, int, int], expected: str
) -> None:
    assert unusual_sentence(*counts).endswith(expected)


def test_sentence_of_a_batch_has_the_number_of_false_discoveries() -> None:
    p = np.concatenate([np.full(20, 0.001), np.linspace(0.2, 1.0, 80)])
    assert "20 are unusual, of which at most about 2 by chance" in discovery_sentence(p)
    assert discovery_sentence(np.array([0.5])).endswith("none is unusual.")


def test_facts_of_a_batch_have_the_number_expected_by_chance_and_the_flagged_ones() -> None:
    """Limits of five values at 10 % are 0.02, 0.04, 0.06, 0.08 and 0.1."""
    facts = unusual_facts(P, ["ok", "ok", "warning", "warning", "ok", "ok"])
    assert facts == {
        "p_up_to": 0.05,
        "n_unusual": 2,
        "n_assessed": 5,
        "n_not_assessable": 1,
        "n_expected_by_chance": 0.25,
        "false_discovery_rate": 0.1,
        "n_at_this_rate": 3,
        "largest_p_at_this_rate": 0.055,
    }
    assert unusual_facts(np.array([0.9]), ["ok"])["largest_p_at_this_rate"] is None
