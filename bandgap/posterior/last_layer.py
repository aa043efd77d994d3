r"""The posterior of a transfer with fixed hidden layers: draws of the output weights.

f(x) = h(x)'beta + beta_0 in standardised units, where h(x) (q,) are the last hidden features of the
source network. All draws of a block of structures are one matrix product.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bandgap.networks.hidden_layers import Weights, hidden_in_double
from bandgap.networks.standardise import Standardiser
from bandgap.posterior.protocol import (
    Diagnostics,
    Floats,
    PredictiveDraws,
    with_noise,
)


@dataclass(frozen=True, eq=False)
class LastLayerPosterior:
    """Draws of the output layer in index order (chain, draw, ...), in standardised gap units."""

    kind: ClassVar[str] = "last_layer"
    n_members: ClassVar[int] = 1

    standardiser: Standardiser
    hidden: Weights  # weight.1, bias.1, ... of all layers but the output layer
    output: Floats  # (chain, draw, q + 1), the bias last
    sigma: Floats  # (chain, draw)
    seed: int
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_chains(self) -> int:
        return int(self.sigma.shape[0])

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.sigma.shape[1])

    @property
    def sigma_eV(self) -> Floats:
        """Standard deviation of the noise of every draw, (chain, draw), in eV."""
        return self.sigma * self.standardiser.y_sd_eV

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the mean of every draw, (chain, draw, n), in eV, for raw features (n, p)."""
        h = hidden_in_double(self.hidden, self.standardiser.features(features))[-1]
        return self.standardiser.gaps_eV(self.output[..., :-1] @ h.T + self.output[..., -1:])

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and their noise for a new observation for raw
        features (n, p).
        """
        return with_noise(self.mean_draws_eV(features), self.sigma_eV)

    def summaries(self) -> dict[str, Floats]:
        """Return draws of sigma in eV."""
        return {"sigma_eV": self.sigma_eV}
