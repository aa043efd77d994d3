"""No source model: what methods without transfer are given instead of one, which is a descriptor and a network's shape.

A method that leaves the source alone (Gaussian process, kernel ridge, trees) or takes its shape only (`target_only`,
`bnn`) then needs no source that knows its elements: the descriptor is made for the target's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.datasets.table import elements_of
from bandgap.descriptors import MBTRConfig, descriptor_for, n_features
from bandgap.descriptors.potentials import potential_for, potential_obstacle
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.standardise import fit_standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.structures import StructureRecord


def no_source(
    descriptor: MBTRConfig, features: NDArray[np.floating[Any]], gaps_eV: NDArray[np.float64]
) -> SourceModel:
    """Return a source that knows nothing: all weights zero, on the scales of the target's training rows.

    Raw features (n, p), of which those behind the descriptor's are left out, and gaps (n,) in eV.
    """
    config = SourceConfig()
    network = NetworkConfig(n_features(descriptor), config.hidden)
    params = {name: torch.zeros(shape) for name, shape in network.shapes.items()}
    standardiser = fit_standardiser(features[:, : network.n_features], gaps_eV)
    return SourceModel(params, network, standardiser, descriptor, SourceCard((), 0, ()), config)


def elements_to_learn(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> list[str]:
    """Return the elements of the structures that are not refused and have a gap (n,) in eV (NaN: none)."""
    found: set[str] = set()
    for record, gap in zip(records, gaps_eV, strict=False):  # `learnable` compares their numbers
        if record.status != "refused" and np.isfinite(gap):
            found |= elements_of(record)
    return sorted(found)


def own_descriptor(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> MBTRConfig:
    """Return the descriptor for the elements of the labelled structures, with a potential where one is installed.

    Raises InputError where none is left.
    """
    elements = elements_to_learn(records, gaps_eV)
    if not elements:
        raise InputError(
            f"None of {len(records)} structures can be learned from: none is usable and has a gap."
        )
    return descriptor_for(elements, potential=potential_for(elements))


def potential_obstacle_for(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> str:
    """Say where a few of the labelled structures keep `own_descriptor` from an installed potential, else ""."""
    pairs = zip(records, gaps_eV, strict=False)
    learned = {
        record.id: elements_of(record)
        for record, gap in pairs
        if record.status != "refused" and np.isfinite(gap)
    }
    return potential_obstacle(learned)


def refuse_beside_source(descriptor: MBTRConfig | None) -> None:
    """Raise ConfigError where a descriptor is chosen beside a source model."""
    if descriptor is not None:
        raise ConfigError(
            "A descriptor is given beside a source model, which has its own. Leave out `--preset` and `--species` "
            "(`descriptor`), or do without a source: `--source none`."
        )
