"""The applicability domain names unseen elements, distances and nearest training structures."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.domain import MAX_ROWS, N_FOLDS, Domain, fit_domain
from bandgap.storage.stored_fields import load_fields, save_fields
from bandgap.storage.tensors import load_tensors, save_tensors

RNG = np.random.default_rng(4)
TRAIN = np.abs(RNG.normal(1.0, 0.1, (100, 12))).astype(np.float32)
TRAIN[:, 5] = 0.0  # an element that no training structure has
IDS = tuple(f"KAX{i:03d}" for i in range(100))
ELEMENTS = [
    {"C", "H", *(["S"] if i < 40 else []), *(["I"] if i < 20 else []), *(["Se"] if i < 3 else [])}
    for i in range(100)
]
CH = {"C", "H"}


@pytest.fixture
def domain() -> Domain:
    return fit_domain(TRAIN, ids=IDS, elements=ELEMENTS, source_species=("C", "H", "N", "S"))


def far_row():
    row = TRAIN[7].copy()
    row[:3] += 2.0
    return row


def test_judge_training_structure_is_ok_and_nearest_to_itself(domain):
    judged = domain.judge(TRAIN[:3], ELEMENTS[40:43])
    assert [j.text for j in judged] == ["ok"] * 3
    assert [j.nearest for j in judged] == list(IDS[:3])
    assert max(j.distance for j in judged) < 1e-6
    assert max(j.percentile for j in judged) == 0.0


def new_rows(n):
    rows = np.abs(np.random.default_rng(5).normal(1.0, 0.1, (n, 12)))
    rows[:, 5] = 0.0
    return rows


def test_percentile_of_few_rows_is_taken_among_leave_one_out_distances():
    unit = TRAIN[:20] / np.linalg.norm(TRAIN[:20], axis=1, keepdims=True)
    expected = np.sort(1 - (unit @ unit.T - 2 * np.eye(20)).max(axis=1))
    domain = fit_domain(TRAIN[:20], ids=IDS[:20], elements=ELEMENTS[:20], source_species=CH)
    np.testing.assert_allclose(domain.distances, expected, atol=1e-6)
    for judgement in domain.judge(new_rows(50), [CH] * 50):
        n_smaller = round(20 * judgement.percentile)
        assert n_smaller == pytest.approx(np.sum(expected < judgement.distance), abs=1)  # a tie
        assert judgement.p == pytest.approx((1 + 20 - n_smaller) / 21)


def test_p_value_is_the_share_with_as_large_a_rank_of_distance_or_residual(domain):
    """By scikit-learn's principal components and plain ranks; a tie may move one rank."""
    unit = TRAIN / np.linalg.norm(TRAIN, axis=1, keepdims=True)
    folds = np.random.default_rng(0).permutation(100) % N_FOLDS

    def residuals(known_rows, rows):
        components = PCA(8).fit(known_rows)
        residual = rows - components.inverse_transform(components.transform(rows))
        return np.linalg.norm(residual, axis=1)

    known_distances = 1 - (unit @ unit.T - 2 * np.eye(100)).max(axis=1)
    known_residuals = np.empty(100)
    for k in range(N_FOLDS):
        known_residuals[folds == k] = residuals(unit[folds != k], unit[folds == k])
    new = new_rows(50)
    new_unit = new / np.linalg.norm(new, axis=1, keepdims=True)
    distances = 1 - (new_unit @ unit.T).max(axis=1)
    left_over = residuals(unit, new_unit)

    def rank(distance, residual):
        return max(np.sum(known_distances < distance), np.sum(known_residuals < residual))

    known_ranks = [rank(*pair) for pair in zip(known_distances, known_residuals, strict=True)]
    for judgement, *pair in zip(domain.judge(new, [CH] * 50), distances, left_over, strict=True):
        expected = (1 + np.sum(known_ranks >= rank(*pair))) / 101
        assert judgement.p == pytest.approx(expected, abs=0.011)


def test_rows_in_the_span_of_few_components_have_no_residual():
    """What is left is rounding of float32 descriptors, which would depend on the chunk."""
    random = np.random.default_rng(0)
    mixing = random.normal(size=(3, 40))
    rows = (random.normal(size=(200, 3)) @ mixing + 5.0).astype(np.float32)
    domain = fit_domain(rows, ids=[*map(str, range(200))], elements=[CH] * 200, source_species=CH)
    assert np.all(domain.residuals == 0.0)
    outside = rows[:20] + 0.1 * random.normal(size=(20, 40))
    assert all(judgement.percentile == 1.0 for judgement in domain.judge(outside, [CH] * 20))


def test_domain_without_residuals_judges_by_the_distance_alone(domain, tmp_path):
    path = tmp_path / "domain.safetensors"
    save_fields(domain, path)
    arrays = load_tensors(path, {})
    for name in ("centre", "components", "residuals", "ranks"):
        del arrays[name]
    save_tensors(arrays, path)
    of_few_rows = load_fields(Domain, path)
    row = TRAIN[:1].copy()
    row[0, :2] *= (1.3, 0.8)
    (judgement,) = of_few_rows.judge(row, [CH])
    assert judgement.percentile == np.mean(domain.distances < judgement.distance)


def test_element_that_nobody_has_seen_has_no_p_value(domain):
    judged = domain.judge(TRAIN[:3], [{"C", "Br"}, {"C", "N"}, {"C", "Se"}])
    assert [np.isnan(judgement.p) for judgement in judged] == [True, False, False]


def test_judge_far_structure_names_distance_and_nearest_structure(domain):
    judgement = domain.judge(far_row()[None], [CH])[0]
    assert judgement.percentile == 1.0
    assert judgement.text == (
        f"Farther from the training set than all of it; nearest known: {judgement.nearest} "
        f"(cosine distance {judgement.distance:.2g})"
    )


def test_judge_rather_far_structure_names_the_share(domain):
    distance = domain.judge(far_row()[None], [CH])[0].distance
    distances = np.sort([*np.linspace(0.1, 0.9, 98) * distance, 1.5 * distance, 2 * distance])
    by_distance = dataclasses.replace(domain, distances=distances, residuals=np.empty(0))
    judgement = by_distance.judge(far_row()[None], [CH])[0]
    assert judgement.text.startswith(
        "Farther from the training set than 98 % of it; nearest known: KAX"
    )


def test_elements_that_are_all_in_few_structures_are_no_warning(domain):
    mixed = dataclasses.replace(
        domain, source_species=(), target_counts={"Pb": 7, "Sn": 8, "Ti": 3, "O": 40, "F": 8}
    )
    texts = [j.text for j in mixed.judge(TRAIN[:2], [{"Pb", "O"}, {"Ti", "O"}])]
    assert texts == ["ok", "Contains Ti, seldom seen; training structures: Ti in 3"]


@pytest.mark.parametrize(
    ("elements", "text"),
    [
        (
            {"C", "H", "Br"},
            "Contains Br, never seen by the source model nor in the training set",
        ),
        (
            {"C", "Se"},
            "Contains Se, never seen by the source model; training structures: Se in 3",
        ),
        (
            {"C", "N"},
            "Contains N, never seen in the training set, only by the source model",
        ),
        ({"C", "I", "S"}, "ok"),
        (
            {"Pb", "Br", "N"},
            "Contains Br, Pb, never seen by the source model nor in the training set. "
            "Contains N, never seen in the training set, only by the source model",
        ),
    ],
)
def test_judge_element_that_was_not_learned_is_named(domain, elements, text):
    judgement = domain.judge(TRAIN[:1], [elements])[0]
    assert judgement.text == text


def test_judge_signal_of_an_unknown_element_adds_to_the_distance(domain):
    row = TRAIN[:1].copy()
    row[0, 5] = 3.0
    assert domain.judge(row, [CH])[0].distance > 0.2


def test_judge_refused_structure_has_empty_text(domain):
    judged = domain.judge(np.vstack([np.full(12, np.nan), TRAIN[1]]), [set(), CH])
    assert judged[0].text == ""
    assert np.isnan(judged[0].distance)
    assert judged[1].text == "ok"


def test_fit_domain_of_many_rows_keeps_a_fixed_choice():
    rows = np.abs(RNG.normal(1.0, 0.1, (MAX_ROWS + 50, 4)))
    ids = [str(i) for i in range(len(rows))]
    one, other = (
        fit_domain(rows, ids=ids, elements=[CH] * len(rows), source_species=CH) for _ in range(2)
    )
    assert len(one.ids) == MAX_ROWS
    assert one.ids == other.ids
    assert one.target_counts == {"C": MAX_ROWS + 50, "H": MAX_ROWS + 50}


def test_stored_domain_judges_the_same(domain, tmp_path):
    save_fields(domain, tmp_path / "domain.safetensors")
    again = load_fields(Domain, tmp_path / "domain.safetensors")
    rows = np.vstack([TRAIN[:2], far_row()])
    elements = [CH, {"Br"}, CH]
    # as texts: from Python 3.13 on, dataclasses with NaN differ
    assert repr(again.judge(rows, elements)) == repr(domain.judge(rows, elements))


def test_domain_from_damaged_tensors_is_refused(domain, tmp_path):
    path = tmp_path / "domain.safetensors"
    save_fields(domain, path)
    arrays = load_tensors(path, {})
    for damaged in (
        {name: value for name, value in arrays.items() if name != "columns"},
        arrays | {"words": torch.tensor([1, 2], dtype=torch.uint8)},
        arrays | {"words": torch.full((1000,), ord("["), dtype=torch.uint8)},
    ):
        save_tensors(damaged, path)
        with pytest.raises(ArtifactError, match="cannot be read .* make it again"):
            load_fields(Domain, path)
