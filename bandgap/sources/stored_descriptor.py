"""Stored descriptors of sources and runs: settings in the manifest, weights of a graph network.

Torch is loaded with the weights.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bandgap.descriptors.block_settings import digest_of
from bandgap.descriptors.config import DescriptorConfig
from bandgap.foundation.config import from_dict, to_dict
from bandgap.foundation.errors import ArtifactError

GRAPH = "graph.safetensors"


def save_descriptor(folder: Path, descriptor: DescriptorConfig) -> dict[str, Any]:
    """Write a graph network's weights into the folder; return the descriptor's manifest entry."""
    if descriptor.graph is not None:
        from bandgap.storage.tensors import save_tensors

        save_tensors(descriptor.graph.weights, folder / GRAPH)
    else:
        (folder / GRAPH).unlink(missing_ok=True)  # of an earlier model in this folder
    return to_dict(descriptor)


def load_descriptor(folder: Path, entry: Mapping[str, Any]) -> DescriptorConfig:
    """Return the descriptor of a manifest entry; raise ArtifactError if its weights differ."""
    descriptor = from_dict(DescriptorConfig, entry)
    if descriptor.graph is None:
        return descriptor
    from bandgap.storage.tensors import load_tensors

    weights = load_tensors(folder / GRAPH, {})
    if digest_of(weights) != descriptor.graph.digest:
        raise ArtifactError(
            f"{folder / GRAPH}: the weights of the graph network are not those that the manifest "
            "names. "
            "The folder is damaged; make it again."
        )
    return replace(descriptor, graph=replace(descriptor.graph, weights=weights))
