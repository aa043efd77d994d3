"""A source model for structures with elements that it has never seen: its descriptor grown by them, weights of zero.

The vector of MBTR has a block for every element and every pair of elements, so new elements add blocks and change none.
Weights of the new features begin at zero: the grown source says of every structure what it said before, as if atoms of
new elements were not there, and what these features are worth is learned from the target alone, under the prior or from
the start that a method has for the other weights of the first layer. Their scales are those of the target's training
rows, as the source has none.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import MBTRConfig, feature_blocks, n_features
from bandgap.networks.standardise import feature_statistics, powered
from bandgap.sources.model import SourceModel


def grown(source: SourceModel, descriptor: MBTRConfig, x: NDArray[np.floating[Any]]) -> SourceModel:
    """Return the source for the features of a grown descriptor, and raw training rows x (n, p) of these features.

    The point estimate alone grows: Fisher information, variational posterior and snapshots say nothing of new weights,
    and the grown source has none.
    """
    if descriptor == source.descriptor:
        return source
    width = n_features(descriptor)
    kept = _places(source.descriptor, descriptor)
    first = source.params["weight.1"]
    weights = first.new_zeros(first.shape[0], width)
    weights[:, kept] = first
    old = source.standardiser
    mean, scale = feature_statistics(powered(x[:, :width], old.power))
    mean[kept], scale[kept] = old.x_mean, old.x_scale
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
    descriptor: MBTRConfig,
    x: NDArray[np.floating[Any]],
) -> list[Mapping[str, SourceModel]]:
    """Return every output of every network, grown."""
    return [
        {head: grown(model, descriptor, x) for head, model in member.items()} for member in members
    ]


def _places(old: MBTRConfig, new: MBTRConfig) -> NDArray[np.int64]:
    """Return the places (p,) of the features of a descriptor in the vector of the one that was grown from it."""
    places = dict(feature_blocks(new))
    return np.concatenate(
        [np.arange(places[name].start, places[name].stop) for name, _ in feature_blocks(old)]
    )
