"""A run describes only the structures of its split, which is drawn as if all were described."""

import dataclasses

import numpy as np
import pytest

from bandgap.datasets.table import LabelledSet, learnable, learnable_without_features
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Update
from bandgap.runs.requests import TransferRequest
from bandgap.runs.split_rows import split_of
from bandgap.runs.transfer import prepare, split_rows


@pytest.fixture(scope="module")
def labelled(world):
    """All molecules of the small world but the last, which has no gap."""
    gaps_eV = world.gaps_eV.copy()
    gaps_eV[-1] = np.nan
    return LabelledSet(world.records, gaps_eV, "made up")


@pytest.mark.parametrize(
    ("n", "n_test", "preset"), [(6, 0, None), (6, 4, None), (None, 5, None), (6, 4, "chgnet")]
)
def test_structures_outside_the_split_are_not_described(
    source_folder, labelled, n, n_test, preset
) -> None:
    if preset:
        pytest.importorskip("chgnet")
    described: list[int] = []

    def note(update: Update) -> None:
        if update.phase == "descriptors":
            described.append(update.total or 0)

    method = "kernel_ridge" if preset else "feature_gp"
    request = TransferRequest(method=method, n=n, n_test=n_test, seed=3, preset=preset)
    prepared = prepare(None if preset else source_folder, labelled, request)
    split_rows(prepared, progress=note)
    assert set(described) == {23 if n is None else n + n_test}


@pytest.mark.parametrize("conformal_share", [0.0, 0.25])
def test_rows_are_those_of_a_table_that_was_described_as_a_whole(
    source_folder, labelled, conformal_share
) -> None:
    request = TransferRequest(
        method="feature_gp", n=12, n_test=5, seed=3, conformal_share=conformal_share
    )
    prepared = prepare(source_folder, labelled, request)
    tables = split_rows(prepared)
    table = learnable(labelled.records, labelled.gaps_eV, descriptor=prepared.descriptor)
    split = split_of(table, n_test=5, n_train=12, seed=3, conformal_share=conformal_share)
    for part, rows in (
        (tables.train, split.train),
        (tables.held_back, split.held_back),
        (tables.test, split.test),
    ):
        expected = table.rows(rows)
        assert part.ids == expected.ids
        np.testing.assert_array_equal(part.features, expected.features)
        np.testing.assert_array_equal(part.gaps_eV, expected.gaps_eV)


def test_structures_are_left_out_as_if_all_were_described(world) -> None:
    descriptor = dataclasses.replace(world.descriptor, species=("C", "H"))
    tables = [
        function(world.records, world.gaps_eV, descriptor=descriptor)
        for function in (learnable, learnable_without_features)
    ]
    assert tables[0].left_out
    assert tables[0].left_out == tables[1].left_out
    assert tables[0].ids == tables[1].ids
    assert tables[0].content() == tables[1].content()
    assert tables[1].features.shape == (len(tables[0]), 0)


def test_no_structure_to_learn_from_is_refused_with_the_same_text(world) -> None:
    descriptor = dataclasses.replace(world.descriptor, species=("Au",))
    texts = []
    for function in (learnable, learnable_without_features):
        with pytest.raises(InputError) as refusal:
            function(world.records, world.gaps_eV, descriptor=descriptor)
        texts.append(str(refusal.value))
    assert texts[0] == texts[1]
