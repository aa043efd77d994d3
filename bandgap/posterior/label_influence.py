r"""The influence of single labels on single predictions.

Two numbers are computed of every label i and prediction f:

- the weight, the derivative of the mean of f with respect to the label y_i;
- the change, the mean of f minus what it would be without label i.

Gaussian processes and kernel ridge are linear in the labels at fixed scales, so that both are exact
(`inference.gaussian_process.label_weights`). From draws theta of a posterior with normal noise
sigma, l_i = log p(y_i | theta) and f_i the fit of label i, the weight is the posterior covariance

    d E[f] / d y_i = Cov(f, (f_i - y_i) / sigma^2)

and the change to first order is Cov(f, l_i), the infinitesimal jackknife of a posterior mean.
Divided by 1 - h_i with h_i = Var(f_i) E[1 / sigma^2], the weight of label i in its own fit, it is
exact where f is linear in normal weights and sigma is fixed, as for an output layer.

References
----------
R. Giordano and T. Broderick, The Bayesian infinitesimal jackknife for variance, arXiv:2305.06466
(2023), eqs. 4 and 5. P. Gustafson, Local sensitivity of posterior expectations, Ann. Stat. 24,
174-195 (1996).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.gaussian_process.label_weights import WeightsAndChanges
from bandgap.posterior.protocol import Floats, Posterior

Way = Literal["kernel", "draws"]
Features = NDArray[np.floating[Any]]

MIN_DRAWS = 100  # of a posterior, for covariances of draws
LABELS_PER_BLOCK = 500  # whose fits by all draws are in memory together
LARGEST_LEVERAGE = 0.9  # of a label on its own fit, in the divisor of the change


@dataclass(frozen=True, eq=False)
class LabelInfluence:
    """Influence of n labels on m predictions.

    Attributes
    ----------
    weights
        Derivatives (m, n) of the predictions with respect to the labels, in eV per eV.
    changes_eV
        Predictions minus those without a label, (m, n), in eV.
    errors_eV
        Standard errors (m, n) of the changes from the number of draws, as if draws were
        independent; 0 where the changes are exact.
    way
        Whether they come from a kernel or from covariances of draws.
    share
        Share of the prediction that is included: below 1 in a pool with methods that have no
        weights of labels.
    """

    weights: Floats
    changes_eV: Floats
    errors_eV: Floats
    way: Way
    share: float = 1.0


def label_influence(
    posterior: Posterior,
    features: Features,
    *,
    training: Features,
    gaps_eV: Floats,
    excluded: Collection[str] = (),
) -> LabelInfluence | None:
    """Return the influence of the training labels on predictions.

    Parameters
    ----------
    posterior
        A posterior that was fitted to these labels.
    features
        Raw features (m, p) of the predicted structures.
    training, gaps_eV
        Raw features (n, p) and labels (n,) that it learned from, in their order.
    excluded
        Methods of a pool whose draws are not from the posterior of their weights.

    Returns
    -------
    LabelInfluence | None
        None for posteriors that have no such weights: trees, single networks, networks with
        independent or bootstrapped weights, and sets with metals.
    """
    from bandgap.posterior.baseline import BaselinePosterior
    from bandgap.posterior.mixture import PosteriorMixture
    from bandgap.posterior.pool import PooledPosterior

    if isinstance(posterior, BaselinePosterior):
        line = posterior.baseline
        residual_gaps = gaps_eV - line.slope * line.distances_eV(training)
        return label_influence(
            posterior.residual,
            features[:, : line.n_features],
            training=training[:, : line.n_features],
            gaps_eV=residual_gaps,
            excluded=excluded,
        )
    if isinstance(posterior, PosteriorMixture):
        share = 1.0 / len(posterior.members)
        parts = [(share, member) for member in posterior.members]
    elif isinstance(posterior, PooledPosterior):
        names = zip(posterior.weights, posterior.methods, posterior.members, strict=True)
        parts = [(weight, member) for weight, name, member in names if name not in excluded]
    else:
        return _of_single(posterior, features, training=training, gaps_eV=gaps_eV)
    influences = [
        (share, influence)
        for share, member in parts
        if share > 0.0
        and (
            influence := label_influence(
                member, features, training=training, gaps_eV=gaps_eV, excluded=excluded
            )
        )
    ]
    return _combined(influences)


def _combined(influences: list[tuple[float, LabelInfluence]]) -> LabelInfluence | None:
    """Return the sum of influences, each multiplied by its share of the prediction."""
    if not influences:
        return None
    has_draws = any(influence.way == "draws" for _, influence in influences)
    return LabelInfluence(
        np.sum([share * i.weights for share, i in influences], axis=0),
        np.sum([share * i.changes_eV for share, i in influences], axis=0),
        np.sqrt(np.sum([(share * i.errors_eV) ** 2 for share, i in influences], axis=0)),
        "draws" if has_draws else "kernel",
        float(sum(share * i.share for share, i in influences)),
    )


def _of_single(
    posterior: Posterior, features: Features, *, training: Features, gaps_eV: Floats
) -> LabelInfluence | None:
    """Return the influence for a posterior that contains no others."""
    from bandgap.posterior.conformal import ConformalPosterior
    from bandgap.posterior.feature_gp import FeatureGPPosterior
    from bandgap.posterior.fold_models import LaplacianModels
    from bandgap.posterior.gaussian_process import GaussianProcessPosterior
    from bandgap.posterior.parts_gp import PartsGPPosterior

    if isinstance(posterior, GaussianProcessPosterior | FeatureGPPosterior | PartsGPPosterior):
        return _exact(posterior.label_weights(features))
    if isinstance(posterior, ConformalPosterior):
        models = posterior.models
        return (
            _exact(models.label_weights(features, gaps_eV))
            if isinstance(models, LaplacianModels)
            else None
        )
    if not _has_posterior_draws(posterior):
        return None
    draws = posterior.n_chains * posterior.n_draws
    predictions_eV = posterior.mean_draws_eV(features).reshape(draws, -1)
    sigma_eV = posterior.summaries()["sigma_eV"].reshape(draws)
    parts = [
        influence_of_draws(
            predictions_eV,
            posterior.mean_draws_eV(training[start : start + LABELS_PER_BLOCK]).reshape(draws, -1),
            sigma_eV=sigma_eV,
            gaps_eV=gaps_eV[start : start + LABELS_PER_BLOCK],
        )
        for start in range(0, len(training), LABELS_PER_BLOCK)
    ]
    return LabelInfluence(
        np.concatenate([part.weights for part in parts], axis=1),
        np.concatenate([part.changes_eV for part in parts], axis=1),
        np.concatenate([part.errors_eV for part in parts], axis=1),
        "draws",
    )


def _exact(result: WeightsAndChanges) -> LabelInfluence:
    return LabelInfluence(result.weights, result.changes, np.zeros_like(result.changes), "kernel")


def has_few_draws(posterior: Posterior) -> bool:
    """Return whether a posterior would have weights of labels if it had at least `MIN_DRAWS`."""
    from bandgap.posterior.baseline import BaselinePosterior
    from bandgap.posterior.mixture import PosteriorMixture
    from bandgap.posterior.pool import PooledPosterior

    if isinstance(posterior, BaselinePosterior):
        return has_few_draws(posterior.residual)
    if isinstance(posterior, PosteriorMixture | PooledPosterior):
        return any(map(has_few_draws, posterior.members))
    return _is_sampled(posterior) and not _has_posterior_draws(posterior)


def _has_posterior_draws(posterior: Posterior) -> bool:
    return _is_sampled(posterior) and posterior.n_chains * posterior.n_draws >= MIN_DRAWS


def _is_sampled(posterior: Posterior) -> bool:
    """Return whether draws of all structures come from draws of the weights given the labels."""
    from bandgap.posterior.last_layer import LastLayerPosterior
    from bandgap.posterior.network import NetworkPosterior, ScaledNetworkPosterior

    if isinstance(posterior, LastLayerPosterior):
        return True
    if not isinstance(posterior, NetworkPosterior) or isinstance(posterior, ScaledNetworkPosterior):
        return False
    # bnn has no layer weights; networks that are only trained have no R-hat
    return posterior.layer_weights is not None or "rhat_max" in posterior.diagnostics.figures


def influence_of_draws(
    predictions_eV: Floats, fits_eV: Floats, *, sigma_eV: Floats, gaps_eV: Floats
) -> LabelInfluence:
    """Return the influence of labels by covariances of draws.

    Parameters
    ----------
    predictions_eV
        Draws of the predictions, (draw, m).
    fits_eV
        The same draws at the labelled structures, (draw, n).
    sigma_eV
        Standard deviation of the noise of every draw, (draw,).
    gaps_eV
        Labels (n,).
    """
    n_draws = len(sigma_eV)
    precision = sigma_eV[:, None] ** -2
    residuals = fits_eV - gaps_eV
    likelihood = -np.log(sigma_eV)[:, None] - 0.5 * precision * residuals**2
    centred = predictions_eV - predictions_eV.mean(axis=0)
    weights = centred.T @ _centred(precision * residuals) / (n_draws - 1)
    leverage = fits_eV.var(axis=0, ddof=1) * precision.mean()
    divisor = 1.0 - np.minimum(leverage, LARGEST_LEVERAGE)
    changes = centred.T @ _centred(likelihood) / (n_draws - 1)
    spread = centred.std(axis=0)[:, None] * likelihood.std(axis=0)
    return LabelInfluence(weights, changes / divisor, spread / np.sqrt(n_draws) / divisor, "draws")


def _centred(values: Floats) -> Floats:
    result: Floats = values - values.mean(axis=0)
    return result
