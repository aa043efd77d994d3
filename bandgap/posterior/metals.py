"""The posterior of a set of metals and semiconductors: a classifier, and the semiconductors' gaps.

A gap is zero with the probability of the classifier, and otherwise a positive gap from the
posterior of any method that was fitted to the semiconductors alone
(`predictions.gap_distribution`). A component of that posterior whose centre is more than two of its
standard deviations below zero is moved to there, so that it has positive gaps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from torch import Tensor

from bandgap.posterior.metal_classifier import MetalClassifier
from bandgap.posterior.protocol import Diagnostics, Floats, Posterior, PredictiveDraws

LOWEST_CENTRE = -2.0  # in standard deviations of a component
SEMICONDUCTORS = "semiconductors."
CLASSIFIER = "classifier."
_LOG_ROOT_2PI = float(0.5 * np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class MetalsPosterior:
    """The posterior of the semiconductors' gaps, and the classifier."""

    kind: ClassVar[str] = "metals"

    semiconductors: Posterior
    classifier: MetalClassifier
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_chains(self) -> int:
        return self.semiconductors.n_chains

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return self.semiconductors.n_draws

    @property
    def n_members(self) -> int:
        return self.semiconductors.n_members

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean gap, (chain, draw, n), in eV, for raw features (n, p)."""
        return self.predictive_draws(features).means_eV

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean gap and the distribution of a new gap for raw features (n, p).

        A draw of the mean is that of a semiconductor's mean gap times a draw of the probability
        that it is one. All are multiplied by one factor for each structure, so that their mean is
        the distribution's.
        """
        draws = self.semiconductors.predictive_draws(features)
        sds = draws.wide_sds_eV
        centres = np.maximum(draws.centres_eV, LOWEST_CENTRE * sds)
        plain = PredictiveDraws(
            draws.means_eV, centres, np.array(sds), self.classifier.p_metal(features)
        )
        noise = np.sqrt(np.ascontiguousarray((sds**2).T).mean(axis=1))
        p_draws = self.classifier.p_draws(features, self.n_chains * self.n_draws)
        means = _mean_above_zero(draws.means_eV, noise)
        means = means * (1.0 - p_draws).reshape(means.shape)
        present_mean = np.ascontiguousarray(means.reshape(-1, means.shape[-1]).T).mean(axis=1)
        means *= plain.gaps.mean_eV() / present_mean
        return PredictiveDraws(means, plain.centres_eV, plain.sds_eV, plain.p_metal)

    def summaries(self) -> dict[str, Floats]:
        """Return the summaries of the semiconductors' posterior."""
        return self.semiconductors.summaries()

    def to_arrays(self) -> dict[str, Tensor]:
        """Return the tensors of both parts, with the part before the name."""
        arrays = self.semiconductors.to_arrays()
        classifier = self.classifier.to_arrays()
        return {f"{SEMICONDUCTORS}{name}": value for name, value in arrays.items()} | {
            f"{CLASSIFIER}{name}": value for name, value in classifier.items()
        }

    def scalars(self) -> dict[str, Any]:
        """Return kind and scalars of the semiconductors' posterior, and those of the classifier."""
        semiconductors = {"kind": self.semiconductors.kind, **self.semiconductors.scalars()}
        return {"semiconductors": semiconductors, "classifier": self.classifier.scalars()}

    @classmethod
    def around(
        cls,
        semiconductors: Posterior,
        arrays: Mapping[str, Tensor],
        *,
        scalars: Mapping[str, Any],
        diagnostics: Diagnostics,
    ) -> "MetalsPosterior":
        """Build a posterior from the semiconductors' one, and the classifier's arrays and
        `scalars`.
        """
        classifier = MetalClassifier.from_arrays(arrays, scalars=scalars["classifier"])
        return cls(semiconductors, classifier, diagnostics)


def _mean_above_zero(means: Floats, sds: Floats) -> Floats:
    """Return the means of N(mean, sd^2) above zero for means (chain, draw, n) and sds (n,)."""
    z = np.maximum(means / sds, LOWEST_CENTRE)
    result: Floats = sds * (z + np.exp(-0.5 * z**2 - _LOG_ROOT_2PI - log_ndtr(z)))
    return result
