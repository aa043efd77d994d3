"""The posterior of a set of metals and semiconductors: a classifier, and the semiconductors' gaps.

A gap is zero with the probability of the classifier, and otherwise a positive gap from the
posterior of any method that was fitted to the semiconductors alone
(`predictions.gap_distribution`). A component whose centre is more than two of its standard
deviations below zero is moved to there, so that it has positive gaps.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bandgap.posterior.metal_classifier import MetalClassifier
from bandgap.posterior.protocol import Diagnostics, Floats, Posterior, PredictiveDraws

LOWEST_CENTRE = -2.0  # in standard deviations of a component
_LOG_ROOT_2PI = float(0.5 * np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class MetalsPosterior:
    """The posterior of the semiconductors' gaps and the classifier."""

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
        scores = self.classifier.scores(features)
        sds = draws.wide_sds_eV
        plain = PredictiveDraws(
            draws.means_eV,
            np.maximum(draws.centres_eV, LOWEST_CENTRE * sds),
            sds,
            self.classifier.probability(scores),
        )
        noise = np.sqrt((sds**2).mean(axis=0))
        p_draws = self.classifier.p_draws(scores, self.n_chains * self.n_draws)
        shape = draws.means_eV.shape
        means = _mean_above_zero(draws.means_eV, noise)
        means = means * (1.0 - p_draws).reshape(shape)
        means *= plain.gaps.mean_eV() / means.mean(axis=(0, 1))
        return PredictiveDraws(means, plain.centres_eV, plain.sds_eV, plain.p_metal)

    def summaries(self) -> dict[str, Floats]:
        """Return the summaries of the semiconductors' posterior."""
        return self.semiconductors.summaries()


def sampled_part(posterior: Posterior) -> Posterior:
    """Return the posterior that a method sampled, without a classifier around it.

    Its draws show whether chains agree. Those with the classifier do not: draws of the probability
    are independent of the chains.
    """
    return posterior.semiconductors if isinstance(posterior, MetalsPosterior) else posterior


def _mean_above_zero(means: Floats, sds: Floats) -> Floats:
    """Return the means of N(mean, sd^2) above zero for means (chain, draw, n) and sds (n,)."""
    z = np.maximum(means / sds, LOWEST_CENTRE)
    result: Floats = sds * (z + np.exp(-0.5 * z**2 - _LOG_ROOT_2PI - log_ndtr(z)))
    return result
