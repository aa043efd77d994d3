"""The posterior of a set of metals and semiconductors: a classifier, and the semiconductors' gaps.

A gap is zero with the probability of the classifier, and otherwise a positive gap from the
posterior of any method that was fitted to the semiconductors alone
(`predictions.gap_distribution`). That posterior describes gaps by normals, which the condition of a
positive gap cuts at zero, and does not know what the classifier says. Gaps are therefore too large
where a metal is likely, which a straight line in the classifier's score reduces (`ScoreLine`). The
score is the one at the mode of the classifier's weights. A component whose centre is then more
than two of its standard deviations below zero is moved to there, so that it has positive gaps.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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
_LINE_STREAM = 0x3E7C  # with the seed, it names the stream of the line's draws
_LOG_ROOT_2PI = float(0.5 * np.log(2.0 * np.pi))


@dataclass(frozen=True)
class ScoreLine:
    """A change of the semiconductors' gaps, straight in the classifier's score.

    The change in eV is `intercept_eV` plus `slope_eV` times the excess: the score minus
    `mean_score`, the mean of the semiconductors among the training rows. Scores are limited to
    theirs, `lowest` to `highest`. `covariance_eV2` is that of intercept and slope: two variances
    and the covariance, in this order.
    """

    intercept_eV: float
    slope_eV: float
    covariance_eV2: tuple[float, float, float]
    mean_score: float
    lowest: float
    highest: float

    def excess(self, scores: Floats) -> Floats:
        """Return the excess (n,) of scores (n,)."""
        return np.clip(scores, self.lowest, self.highest) - self.mean_score

    def changes_eV(self, excess: Floats) -> Floats:
        """Return the change (n,) of gaps with an excess (n,)."""
        return self.intercept_eV + self.slope_eV * excess

    def variances_eV2(self, excess: Floats) -> Floats:
        """Return the variance (n,) of the change of gaps with an excess (n,)."""
        of_intercept, of_slope, of_both = self.covariance_eV2
        result: Floats = of_intercept + 2.0 * of_both * excess + of_slope * excess**2
        return result

    def draws_eV(self, excess: Floats, n_draws: int, *, seed: int) -> Floats:
        """Return draws (draw, n) of the change of gaps with an excess (n,)."""
        rng = np.random.default_rng([seed, _LINE_STREAM])
        of_intercept, of_slope, of_both = self.covariance_eV2
        # The Cholesky factor of the covariance.
        factor_11 = math.sqrt(of_intercept)
        factor_21 = of_both / factor_11 if factor_11 else 0.0
        factor_22 = math.sqrt(max(of_slope - factor_21**2, 0.0))
        z = rng.standard_normal((n_draws, 2))
        intercepts = self.intercept_eV + factor_11 * z[:, :1]
        slopes = self.slope_eV + factor_21 * z[:, :1] + factor_22 * z[:, 1:]
        result: Floats = intercepts + slopes * excess
        return result


NO_LINE = ScoreLine(
    intercept_eV=0.0,
    slope_eV=0.0,
    covariance_eV2=(0.0, 0.0, 0.0),
    mean_score=0.0,
    lowest=0.0,
    highest=0.0,
)


@dataclass(frozen=True, eq=False)
class MetalsPosterior:
    """The posterior of the semiconductors' gaps, the classifier, and the line in its score."""

    kind: ClassVar[str] = "metals"

    semiconductors: Posterior
    classifier: MetalClassifier
    line: ScoreLine = NO_LINE
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
        excess = self.line.excess(scores.weighted(self.classifier.weights))
        sds = np.sqrt(draws.wide_sds_eV**2 + self.line.variances_eV2(excess))
        centres = draws.centres_eV + self.line.changes_eV(excess)
        plain = PredictiveDraws(
            draws.means_eV,
            np.maximum(centres, LOWEST_CENTRE * sds),
            sds,
            self.classifier.probability(scores),
        )
        # The draws of the line already have its variance.
        noise = np.sqrt(np.ascontiguousarray((draws.wide_sds_eV**2).T).mean(axis=1))
        n_means = self.n_chains * self.n_draws
        changes_eV = self.line.draws_eV(excess, n_means, seed=self.classifier.seed)
        p_draws = self.classifier.p_draws(scores, n_means)
        shape = draws.means_eV.shape
        means = _mean_above_zero(draws.means_eV + changes_eV.reshape(shape), noise)
        means = means * (1.0 - p_draws).reshape(shape)
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
        """Return kind and scalars of the semiconductors' posterior, and those of the classifier and
        the line.
        """
        return {
            "semiconductors": {"kind": self.semiconductors.kind, **self.semiconductors.scalars()},
            "classifier": self.classifier.scalars(),
            "line": asdict(self.line),
        }

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
        `scalars`. A posterior that was stored without a line has none.
        """
        classifier = MetalClassifier.from_arrays(arrays, scalars=scalars["classifier"])
        line = NO_LINE
        if "line" in scalars:
            stored = scalars["line"]
            line = ScoreLine(**{**stored, "covariance_eV2": tuple(stored["covariance_eV2"])})
        return cls(semiconductors, classifier, line, diagnostics)


def sampled_part(posterior: Posterior) -> Posterior:
    """Return the posterior that a method sampled, without a classifier around it.

    Its draws show whether chains agree. Those with the classifier do not: draws of the line and of
    the probability are independent of the chains.
    """
    return posterior.semiconductors if isinstance(posterior, MetalsPosterior) else posterior


def _mean_above_zero(means: Floats, sds: Floats) -> Floats:
    """Return the means of N(mean, sd^2) above zero for means (chain, draw, n) and sds (n,)."""
    z = np.maximum(means / sds, LOWEST_CENTRE)
    result: Floats = sds * (z + np.exp(-0.5 * z**2 - _LOG_ROOT_2PI - log_ndtr(z)))
    return result
