"""The density of the structures that a run learned from: p-values of the applicability domain.

The features are the inputs of the rectified units of the source network's last hidden layer, which
the transfer does not change. Without a source they are the standardised descriptors. The density is
stored in the run's folder and belongs to that run alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.flows.unusualness import PValues, Unusualness, fit_unusualness
from bandgap.networks.perceptron import layer_of
from bandgap.networks.standardise import powered
from bandgap.sources.model import SourceModel
from bandgap.storage.manifests import DENSITY

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Map of raw descriptors (n, p) to the features whose density is known.

    `layers` are weights (out, in) and biases (out,) up to the last hidden layer, whose rectified
    units are left out. Without layers the features are the standardised descriptors.
    """

    mean: Floats
    scale: Floats
    power: float
    layers: tuple[tuple[Floats, Floats], ...] = ()

    @classmethod
    def of_source(cls, source: SourceModel, *, has_network: bool) -> "FeatureMap":
        """Return the map of a source network, or of its descriptor alone."""
        standardiser = source.standardiser
        hidden = max(map(layer_of, source.params)) - 1
        layers = tuple(
            (
                source.params[f"weight.{layer}"].double().numpy(),
                source.params[f"bias.{layer}"].double().numpy(),
            )
            for layer in range(1, hidden + 1)
        )
        return cls(
            standardiser.x_mean,
            standardiser.x_scale,
            standardiser.power,
            layers if has_network else (),
        )

    def __call__(self, descriptors: NDArray[np.floating[Any]]) -> Floats:
        """Return the features (n, q)."""
        raw = self.columns(descriptors)
        features: Floats = (powered(raw, self.power) - self.mean) / self.scale
        for i, (weight, bias) in enumerate(self.layers):
            if i:
                features = np.maximum(features, 0.0)
            features = features @ weight.T + bias
        return features

    def columns(self, descriptors: NDArray[np.floating[Any]]) -> Floats:
        """Return the first p columns of the descriptors; later ones are not of the descriptor."""
        return descriptors[:, : self.mean.size].astype(np.float64)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays for a safetensors file."""
        arrays: dict[str, NDArray[Any]] = {
            "mean": self.mean,
            "scale": self.scale,
            "power": np.array([self.power]),
        }
        for i, (weight, bias) in enumerate(self.layers):
            arrays[f"layer.{i}.weight"] = weight
            arrays[f"layer.{i}.bias"] = bias
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "FeatureMap":
        """Rebuild from `to_arrays`."""
        n_layers = sum(name.endswith(".weight") for name in arrays)
        layers = tuple(
            (arrays[f"layer.{i}.weight"], arrays[f"layer.{i}.bias"]) for i in range(n_layers)
        )
        return cls(arrays["mean"], arrays["scale"], float(arrays["power"][0]), layers)


@dataclass(frozen=True, eq=False)
class RunDensity:
    """The density of the structures that a run learned from.

    `elements` are those of the source and of the structures. A structure with another element is
    not assessable: the network maps what it does not know onto features that it knows.
    """

    features: FeatureMap
    unusualness: Unusualness
    elements: frozenset[str]

    def p_values(
        self, descriptors: NDArray[np.floating[Any]], elements: Sequence[Collection[str]]
    ) -> PValues:
        """Return how unusual structures are, NaN for those that are not assessable.

        Parameters
        ----------
        descriptors
            Raw descriptors (n, p); rows of NaN are refused structures.
        elements
            Element symbols of each structure.
        """
        features = self.features(descriptors)
        is_foreign = [not self.elements.issuperset(symbols) for symbols in elements]
        features[np.array(is_foreign, dtype=bool)] = np.nan
        return self.unusualness.p_values(features, self.features.columns(descriptors))

    def facts(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        return {
            "n": len(self.unusualness.folds),
            "features": "source network" if self.features.layers else "descriptor",
            "dimensions": self.unusualness.flows.config.n_features,
            "smallest_p": 1 / (len(self.unusualness.folds) + 1),
        }


def fit_run_density(
    source: SourceModel,
    descriptors: NDArray[np.floating[Any]],
    *,
    has_network: bool,
    elements: Collection[str],
    seed: int,
    progress: Progress = no_progress,
) -> RunDensity:
    """Fit the density to the labelled structures that a run learned from.

    Parameters
    ----------
    source
        Network and scales of the descriptor that the run started from.
    descriptors
        Raw descriptors (n, p) of the structures.
    has_network
        Whether `source` is a trained network; otherwise only its scales are used.
    elements
        Elements of the source and of the structures.
    seed
        Seed of folds, weights and parameters.
    progress
        Called after every epoch; may raise `Cancelled`.

    Raises
    ------
    InputError
        For fewer than 200 different structures.
    """
    features = FeatureMap.of_source(source, has_network=has_network)
    unusualness = fit_unusualness(
        features(descriptors),
        features.columns(descriptors),
        columns_are_continuous=has_network,
        seed=seed,
        progress=progress,
    )
    return RunDensity(features, unusualness, frozenset(elements))


def save_density(folder: Path, density: RunDensity) -> None:
    """Write the density into the folder of a run."""
    arrays = {f"map.{name}": array for name, array in density.features.to_arrays().items()}
    arrays |= {f"flow.{name}": array for name, array in density.unusualness.to_arrays().items()}
    text = " ".join(sorted(density.elements)).encode()
    arrays["elements"] = np.frombuffer(text, dtype=np.uint8).copy()
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    (folder / DENSITY).write_bytes(save(tensors))


def load_density(folder: Path) -> RunDensity | None:
    """Return the density of a run, or None if it was stored without.

    Raises ArtifactError where the file is damaged.
    """
    path = folder / DENSITY
    if not path.is_file():
        return None
    try:
        arrays = load_file(path)
        return RunDensity(
            FeatureMap.from_arrays(_with_prefix(arrays, "map.")),
            Unusualness.from_arrays(_with_prefix(arrays, "flow.")),
            frozenset(arrays["elements"].tobytes().decode().split()),
        )
    except (*DAMAGE, InputError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}). Train the model again.") from error


def _with_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
