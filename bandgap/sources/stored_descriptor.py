"""Descriptors as sources and runs store them: plain settings in the manifest, weights of a graph network beside it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bandgap.descriptors.config import DescriptorConfig
from bandgap.descriptors.graphs import digest_of
from bandgap.foundation.config import from_dict, to_dict
from bandgap.foundation.errors import ArtifactError
from bandgap.storage.tensors import load_tensors, save_tensors

GRAPH = "graph.safetensors"


def save_descriptor(folder: Path, descriptor: DescriptorConfig) -> dict[str, Any]:
    """Return the manifest's entry of a descriptor; a graph network's weights are written to the folder."""
    if descriptor.graph is not None:
        save_tensors(descriptor.graph.weights, folder / GRAPH)
    else:
        (folder / GRAPH).unlink(missing_ok=True)  # of an older model in this folder
    return to_dict(descriptor)


def load_descriptor(folder: Path, entry: Mapping[str, Any]) -> DescriptorConfig:
    """Return the descriptor of a manifest's entry with its weights; raises ArtifactError where these are others."""
    descriptor = from_dict(DescriptorConfig, entry)
    if descriptor.graph is None:
        return descriptor
    weights = load_tensors(folder / GRAPH, {})
    if digest_of(weights) != descriptor.graph.digest:
        raise ArtifactError(
            f"{folder / GRAPH}: the weights of the graph network are not those that the manifest names. "
            "The folder is damaged; make it again."
        )
    return replace(descriptor, graph=replace(descriptor.graph, weights=weights))
