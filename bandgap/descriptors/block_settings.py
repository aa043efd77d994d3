"""The settings of blocks, which a stored descriptor contains; the blocks are in their own modules.

A descriptor without a block is read without the module of this block.
"""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import numpy as np
from annotated_types import Interval

from bandgap.foundation.config import STORED_ELSEWHERE, Settings
from bandgap.foundation.errors import ConfigError, listed
from bandgap.foundation.extras import install_command
from bandgap.networks.graph_config import GraphConfig

ElectronLevels = Literal[
    "none",
    "GFN1-xTB",
    "GFN1-xTB-supercell",
    "GFN1-xTB-molecules",
    "Hueckel-molecules",
    "GFN1-xTB-and-Hueckel",
]
# How to install tblite, as the end of a sentence.
INSTALL_LEVELS: Final = (
    "it has no wheels for Windows, so run bandgap on Linux, also in WSL"
    if sys.platform == "win32"
    else f"run {install_command('xtb')}"
)


@dataclass(frozen=True)
class Soap(Settings):
    """Settings of SOAP.

    Parameters
    ----------
    cutoff_angstrom
        Largest distance of a neighbour.
    sigma_angstrom
        Standard deviation of the density of an atom.
    radial, angular
        Number of radial functions, and largest angular quantum number of the basis.
    weights
        Names of `element_properties.PROPERTIES` that weight the densities. The density without
        weights precedes them.
    """

    cutoff_angstrom: Annotated[float, Interval(gt=1, le=12)] = 5.0
    sigma_angstrom: Annotated[float, Interval(ge=0.05, le=3)] = 0.5
    radial: Annotated[int, Interval(ge=1, le=16)] = 6
    angular: Annotated[int, Interval(ge=0, le=16)] = 4
    weights: tuple[str, ...] = (
        "electronegativity",
        "covalent radius (pm)",
        "valence electrons",
        "unfilled states",
        "row",
    )

    def __post_init__(self) -> None:
        """Raise ConfigError if there is no such property, or one is given twice."""
        super().__post_init__()
        from bandgap.descriptors.element_properties import PROPERTIES

        for name in self.weights:
            if name not in PROPERTIES or self.weights.count(name) > 1:
                raise ConfigError(
                    f"SOAP has the weight {name!r}. Accepted, each once: {', '.join(PROPERTIES)}."
                )


@dataclass(frozen=True)
class OwnColumns(Settings):
    """The columns of the user's own table that a run learned from.

    Parameters
    ----------
    columns
        Headers, in the order of the features.
    centres, scales
        Mean and standard deviation of each over the structures of the training set.
    file, sha256
        Name of the table, and digest of its content.
    """

    columns: tuple[str, ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]
    file: str
    sha256: str

    @property
    def words(self) -> str:
        """The columns and the table as text."""
        return f"{listed(self.columns, 3)}, as in {self.file}"


@dataclass(frozen=True)
class GraphBody:
    """A trained graph network: its config, a digest of its weights, and the weights by name.

    The weights are float32 tensors on the CPU.
    """

    config: GraphConfig
    digest: str
    weights: Mapping[str, Any] = field(
        default_factory=dict, repr=False, compare=False, metadata=STORED_ELSEWHERE
    )

    @classmethod
    def of(cls, config: GraphConfig, weights: Mapping[str, Any]) -> "GraphBody":
        """Return a network with these weights."""
        return cls(config, digest_of(weights), dict(weights))


def digest_of(weights: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits of SHA-256 over names, shapes and values of the weights."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        values = weights[name].detach().cpu().numpy()
        digest.update(f"{name}{values.shape}".encode())
        digest.update(np.ascontiguousarray(values, dtype="<f4").tobytes())
    return digest.hexdigest()[:16]
