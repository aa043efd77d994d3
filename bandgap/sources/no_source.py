"""No source model: the descriptor and the shape of a network for methods without transfer.

A method that does not use the source (Gaussian process, kernel ridge, trees) or uses its shape only
(`target_only`, `bnn`) needs no source for its elements: the descriptor is made for the target's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.datasets.table import elements_of, usable_rows
from bandgap.descriptors import DescriptorConfig, config_for, descriptor_for, n_features
from bandgap.descriptors.potentials import NONE, potential_obstacle, potentials_for
from bandgap.descriptors.user_features import own_columns
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.standardise import fit_standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.structures import StructureRecord


def no_source(
    descriptor: DescriptorConfig, features: NDArray[np.floating[Any]], gaps_eV: NDArray[np.float64]
) -> SourceModel:
    """Return a source whose weights are zero, with the scales of the target's training rows.

    Parameters
    ----------
    descriptor
        The descriptor.
    features
        Raw features (n, p). Those after the descriptor's are not used.
    gaps_eV
        Gaps (n,).
    """
    config = SourceConfig()
    network = NetworkConfig(n_features(descriptor), config.hidden)
    params = {name: torch.zeros(shape) for name, shape in network.shapes.items()}
    standardiser = fit_standardiser(features[:, : network.n_features], gaps_eV)
    return SourceModel(params, network, standardiser, descriptor, SourceCard((), 0, ()), config)


def labelled_elements(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> list[str]:
    """Return the elements of the structures that are not refused and have a gap (not NaN)."""
    rows = usable_rows(records, gaps_eV)
    return sorted(set().union(*(elements_of(records[row]) for row in rows)))


def elements_to_learn(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> list[str]:
    """Return `labelled_elements`. Raises InputError if no structure is usable and has a gap."""
    elements = labelled_elements(records, gaps_eV)
    if not elements:
        raise InputError(
            f"None of {len(records)} structures can be learned from: none is usable and has a gap."
        )
    return elements


def descriptor_for_labelled(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> DescriptorConfig:
    """Return the descriptor for the elements of the labelled structures.

    It contains up to two installed potentials that know them. Raises InputError if no structure is
    usable and has a gap.
    """
    elements = elements_to_learn(records, gaps_eV)
    first, second = potentials_for(elements)
    return descriptor_for(elements, potential=first, second_potential=second)


def named_descriptor(
    preset: str | None,
    species: Sequence[str] | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
) -> DescriptorConfig | None:
    """Return the descriptor of a preset or species, with the labelled records' own features.

    It is None for the one of a source or for the elements of the structures. The preset `NONE` is
    that of own features alone. Raises ConfigError for it without own features.
    """
    pairs = zip(records, gaps_eV, strict=False)
    user_features = own_columns([record for record, gap in pairs if np.isfinite(gap)])
    if preset == NONE:
        if user_features is None:
            raise ConfigError(
                "preset none learns from your own features alone. Name their table, "
                "`--features FILE`, or another preset."
            )
        return DescriptorConfig(user_features=user_features)
    descriptor = config_for(preset=preset, species=species) if preset or species else None
    if user_features is None:
        return descriptor
    return replace(
        descriptor or descriptor_for_labelled(records, gaps_eV), user_features=user_features
    )


def potential_obstacle_for(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> str:
    """Return a message if few labelled structures prevent the use of an installed potential."""
    labelled = [records[row] for row in usable_rows(records, gaps_eV)]
    return potential_obstacle({record.id: elements_of(record) for record in labelled})


def refuse_descriptor_with_source(descriptor: DescriptorConfig | None) -> None:
    """Raise ConfigError if a descriptor is given together with a source model."""
    if descriptor is not None:
        raise ConfigError(
            "A descriptor is given together with a source model, which has its own. Leave out "
            "`--preset`, `--species` and `--features`, or use no source: `--source none`."
        )
