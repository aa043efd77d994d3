"""A source model for structures with elements that it was not trained on.

The vector of the MBTR has a block for every element and every pair of elements, so that new
elements add blocks and change none. The weights of the new features start at zero: the grown source
predicts as if the atoms of new elements were absent. A method learns these weights from the target,
with the prior or the start that it has for the other weights of the first layer. The scales of the
new features are those of the target's training rows.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import DescriptorConfig, feature_blocks, n_features
from bandgap.foundation.errors import ConfigError
from bandgap.networks.standardise import feature_statistics, powered
from bandgap.sources.model import SourceModel


def grown_source(
    source: SourceModel, descriptor: DescriptorConfig, x: NDArray[np.floating[Any]]
) -> SourceModel:
    """Return the source for the features of a grown descriptor.

    Only the point estimate grows. The grown source has no Fisher information, variational posterior
    and snapshots, because these would not contain the new weights.

    Parameters
    ----------
    source
        The source model.
    descriptor
        Its descriptor with more elements.
    x
        Raw training rows (n, p) of this descriptor.
    """
    if descriptor == source.descriptor:
        return source
    width = n_features(descriptor)
    columns = _columns_of(source.descriptor, descriptor)
    first = source.params["weight.1"]
    weights = first.new_zeros(first.shape[0], width)
    weights[:, columns] = first
    old = source.standardiser
    mean, scale = feature_statistics(powered(x[:, :width], old.power))
    mean[columns] = old.x_mean
    scale[columns] = old.x_scale
    return replace(
        source,
        params={**source.params, "weight.1": weights},
        network=replace(source.network, n_features=width),
        standardiser=replace(old, x_mean=mean, x_scale=scale),
        descriptor=descriptor,
        fisher=None,
        variational=None,
        snapshots=None,
    )


def grown_members(
    members: Collection[Mapping[str, SourceModel]],
    descriptor: DescriptorConfig,
    x: NDArray[np.floating[Any]],
) -> list[Mapping[str, SourceModel]]:
    """Return every output of every network, grown.

    Raises ConfigError for a descriptor with electron levels. These follow the features of the
    descriptor in `x`, and networks do not take them.
    """
    if descriptor.levels != "none":
        raise ConfigError(
            f"the descriptor of a source's networks has the electron levels {descriptor.levels!r}. "
            "Give it without levels, and these as the last features."
        )
    return [
        {head: grown_source(model, descriptor, x) for head, model in member.items()}
        for member in members
    ]


def _columns_of(old: DescriptorConfig, new: DescriptorConfig) -> NDArray[np.int64]:
    """Return the columns (p,) of a descriptor's features in the vector of the grown one."""
    blocks = dict(feature_blocks(new))
    return np.concatenate(
        [np.arange(blocks[name].start, blocks[name].stop) for name, _ in feature_blocks(old)]
    )
