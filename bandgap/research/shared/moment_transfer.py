r"""Transfer by passes over the rows: normal weights around the source's, updated by moments.

Before any row, the weight of layer l is N(mu0, 1 / lambda_l), mu0 the
source's weight and E 1 / lambda_l = v0, lambda_l ~ Gamma(6, 5 v0). Units are those in which every
input of a unit counts the same, W = sqrt(c) [weight, bias]. v0 is the candidate with the highest
log evidence in one pass: the evidence of a sequence is the sum of log Z of its rows (Dawid, 1984).

One pass counts every row once. With more passes, "sep" removes the averaged factor of a row before
the row is added again, so that none is counted twice; "adf" counts all rows in every pass.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
from annotated_types import Interval

from bandgap.foundation.config import Count, Positive
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update
from bandgap.networks.perceptron import layers_of
from bandgap.posterior import Diagnostics
from bandgap.research.assumed_density.belief import Belief, Floats, belief_around, with_average
from bandgap.research.assumed_density.inclusion import units_on, weight_inclusion
from bandgap.research.assumed_density.passes import MAX_BATCH, take_in
from bandgap.research.assumed_density.prior_sites import refine_prior
from bandgap.research.posteriors.factorised_network import (
    FactorisedNetworkPosterior,
    clipped_features,
)
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import standardiser_for
from bandgap.transfer.shared.method import Fitting, Scales, TargetData

CLIP: Final = 10.0  # standard deviations of a feature
# Prior variances of hidden layers and of the output layer where only the output layer moves.
FIXED_VARIANCE: Final = 1e-6
FREE_VARIANCE: Final = 1.0
QUANTILES: Final = 201  # of the weights' inclusion probabilities in the record


@dataclass(frozen=True)
class MomentTransferConfig(Scales):
    """Scales (`recalibration`), candidates for the prior variance v0, and the passes.

    `output_alone` adds one candidate: fixed hidden layers and a free output layer. The first pass
    takes single rows, later passes `batch_size` rows together.

    Parameters
    ----------
    zero_probabilities
        Whether messages contain the probability that a unit is exactly zero (SSPBP), which gives
        how often each weight is active. The posterior is the same up to rounding.
    likelihood
        "sep" counts no row twice; "adf" counts all rows in every pass. The paper has "adf"; "sep"
        because counting rows again makes the uncertainty of the weights collapse.
    passes
        Passes over the rows. The paper has 40; 1 because more passes are not more accurate from a
        source (methods, `pbp`: 0.369 eV with one pass, 0.371 with six).
    """

    variances: tuple[Positive, ...] = (0.03, 0.1, 0.3, 1.0)
    output_alone: bool = True
    likelihood: Literal["sep", "adf"] = "sep"
    passes: Count = 1
    batch_size: Annotated[int, Interval(ge=1, le=MAX_BATCH)] = 10
    prior_step: bool = True
    zero_probabilities: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.variances or self.output_alone):
            raise ConfigError(
                "variances = []. Accepted: at least one number if the output layer alone is not "
                "tried."
            )


@dataclass(frozen=True, eq=False)
class _MomentProblem:
    """The source's layers [weight, bias] and the standardised training rows x (n, p), y (n,)."""

    layers: list[Floats]
    x: Floats
    y: Floats


def fit_by_moments(
    source: SourceModel, data: TargetData, config: MomentTransferConfig, fitting: Fitting
) -> FactorisedNetworkPosterior:
    """Choose v0, then update the weights by the training rows; always on the CPU.

    Parameters
    ----------
    source
        Source model.
    data
        Training rows: features (n, p) and gaps in eV.
    config
        Settings.
    seed
        Seed of the order of the rows.
    device
        Not used.
    progress
        Progress callback.

    Returns
    -------
    FactorisedNetworkPosterior
        Independent normals for all weights.
    """
    fitting.progress(Update("preparing the transfer"))
    standardiser = standardiser_for(source, data.features, data.gaps_eV, **config.scales)
    x = clipped_features(standardiser, data.features, limit=CLIP)
    layers = [layer.double().numpy() for layer in layers_of(source.params)]
    problem = _MomentProblem(layers, x, standardiser.gaps(data.gaps_eV))
    variances, figures = _choose_variances(
        problem, config, seed=fitting.seed, progress=fitting.progress
    )
    start = belief_around(problem.layers, variances)
    belief = start
    rng = _generator(fitting.seed, 1)
    log_z = np.zeros(0)
    for pass_number in range(config.passes):
        belief, seen_rows = take_in(
            belief,
            x,
            problem.y,
            rng=rng,
            batch=config.batch_size if pass_number else 1,
            atoms=config.zero_probabilities,
            phase=f"pass {pass_number + 1} of {config.passes}",
            progress=fitting.progress,
        )
        if not pass_number:
            log_z = seen_rows.log_z
            belief = with_average(belief, start, n=len(x)) if config.likelihood == "sep" else belief
        belief = refine_prior(belief) if config.prior_step else belief
    fitting.progress(Update("passes over the crystals", config.passes, config.passes))
    figures |= _figures(belief, log_z, n_clipped=int((np.abs(x) == CLIP).any(1).sum()))
    diagnostics = Diagnostics(
        figures,
        _warnings(config, figures, n=len(x)),
        _inclusion(belief, x) if config.zero_probabilities else {},
    )
    return FactorisedNetworkPosterior(standardiser, belief.weights, belief.noise, CLIP, diagnostics)


def _choose_variances(
    problem: _MomentProblem,
    config: MomentTransferConfig,
    *,
    seed: int,
    progress: Progress,
) -> tuple[tuple[float, ...], dict[str, float]]:
    """Return the prior variance of each layer, and the log evidence per row of all candidates."""
    n_layers = len(problem.layers)
    candidates = {f"{v:g}": (float(v),) * n_layers for v in config.variances}
    if config.output_alone:
        candidates["output_alone"] = (FIXED_VARIANCE,) * (n_layers - 1) + (FREE_VARIANCE,)
    scores: dict[str, float] = {}
    for name, variances in candidates.items() if len(candidates) > 1 else ():
        _, seen_rows = take_in(
            belief_around(problem.layers, variances),
            problem.x,
            problem.y,
            rng=_generator(seed, 0),
            atoms=config.zero_probabilities,
            phase=f"prior variance {name.replace('_', ' ')}",
            progress=progress,
        )
        scores[name] = float(seen_rows.log_z.mean())
    best = max(scores, key=lambda name: scores[name]) if scores else next(iter(candidates))
    figures = {f"log_evidence_a_row_at_{name}": score for name, score in scores.items()}
    return candidates[best], figures | {
        "prior_variance": candidates[best][0],
        "prior_variance_output": candidates[best][-1],
    }


def _figures(belief: Belief, log_z: Floats, *, n_clipped: int) -> dict[str, float]:
    layers = {
        f"variance_layer_{i}": gamma.variance for i, gamma in enumerate(belief.precisions, start=1)
    }
    return {"log_evidence": float(log_z.sum()), "clipped_rows": float(n_clipped), **layers}


def _warnings(
    config: MomentTransferConfig, figures: dict[str, float], *, n: int
) -> tuple[str, ...]:
    """Return the warnings that are shown with the result."""
    warnings = []
    if config.likelihood == "adf" and config.passes > 1:
        warnings.append(
            f"{config.passes} passes counted every crystal {config.passes} times: the uncertainty "
            "of the weights is understated, and the interval is nearly the same for familiar and "
            'for unusual crystals. The likelihood "sep" counts each once.'
        )
    if figures["clipped_rows"]:
        warnings.append(
            f"{figures['clipped_rows']:.0f} of {n} training structures have features beyond "
            f"{CLIP:g} standard deviations, which were moved there: they are far from the range "
            "for which the network's inputs are scaled."
        )
    return tuple(warnings)


def _inclusion(belief: Belief, x: Floats) -> dict[str, Floats]:
    """Return quantiles of each layer's inclusion probabilities, and those of all hidden units."""
    unit_probabilities = units_on(belief.weights, x)
    points = np.linspace(0.0, 1.0, QUANTILES)
    by_layer = [
        np.quantile(layer, points) for layer in weight_inclusion(belief.weights, unit_probabilities)
    ]
    record = {"inclusion.weights": np.stack(by_layer, axis=1)[None]}
    return record | {
        f"inclusion.units.{i}": units.mean(0)[None]
        for i, units in enumerate(unit_probabilities, start=1)
    }


def _generator(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of one step of the fit."""
    return np.random.default_rng([seed, number])
