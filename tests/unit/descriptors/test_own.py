"""Own features as a block of the feature vector."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from ase import Atoms

from bandgap.datasets.own_features import own_features
from bandgap.descriptors import PRESETS, DescriptorConfig, featurize, similarity_features
from bandgap.descriptors.user_features import own_columns
from bandgap.foundation.errors import InputError
from bandgap.structures import StructureRecord
from bandgap.structures.records import Problem

ATOMS = Atoms("H2O", [(0, 0, 0), (0.9, 0, 0), (0, 0.9, 0)], info={"id": "water"})
VALUES = {"a": [1.0, 7.0, 2.0], "b": [3.0, 7.0, 8.0]}


def records(vectors: dict[str, list[float]], *ids: str) -> list[StructureRecord]:
    structures = [StructureRecord(id_, f"{id_}.cif", "CIF", ATOMS) for id_ in ids]
    return own_features(vectors).matched(structures)


def test_block_is_scaled_and_precedes_size_and_other_blocks_stay() -> None:
    learned = records(VALUES, "a", "b")
    user_features = own_columns(learned)
    assert user_features is not None and user_features.columns == ("0", "2")  # column 1 is constant
    plain = replace(PRESETS["oe62-16"], size=True)
    described = featurize(learned, replace(plain, user_features=user_features))
    expected = featurize(learned, plain).features
    np.testing.assert_array_equal(described.features[:, :-3], expected[:, :-1])
    np.testing.assert_array_equal(described.features[:, -1], expected[:, -1])
    np.testing.assert_allclose(described.features[:, -3:-1], [[-1, -1], [1, 1]])
    assert similarity_features(
        described.features, replace(plain, user_features=user_features)
    ).shape[1] == (described.features.shape[1] - 1)


def test_alone_needs_no_geometry_and_takes_columns_by_name() -> None:
    user_features = own_columns(records(VALUES, "a", "b"))
    config = DescriptorConfig(user_features=user_features)
    refused = StructureRecord("r", "r.cif", "CIF", None, (Problem("refused", "is empty."),))
    missing = StructureRecord("c", "c.cif", "CIF", ATOMS)

    frame = pd.DataFrame({"2": [8.0], "more": [0.0], "0": [1.0]}, index=["a"])
    (reordered,) = own_features(frame).matched([replace(missing, id="a")])
    described = featurize([reordered, refused, missing], config)
    np.testing.assert_allclose(described.features[0], [-1, 1])
    assert np.isnan(described.features[1:]).all()
    assert [problem is None for problem in described.problems] == [True, True, False]
    assert described.problems[2] is not None and "no own features" in described.problems[2].text


def test_table_without_a_varying_column_or_a_common_id_is_refused() -> None:
    with pytest.raises(InputError, match="same value"):
        own_columns(records({"a": [1.0], "b": [1.0]}, "a", "b"))
    with pytest.raises(InputError, match="no row has the id.*water.*b"):
        records({"water": [1.0]}, "b")
