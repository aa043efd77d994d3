r"""Transfer by one to a few passes over the rows: normal weights about the source's, moved by moments (`pbp`, `sspbp`).

The weight of layer l is N(mu0, 1 / lambda_l) before any row, mu0 the source's and E 1 / lambda_l = v0, in units in
which every input of a unit counts the same, W = sqrt(c) [weight, bias]; lambda_l ~ Gamma(6, 5 v0). v0 is the one under
which rows were most likely at the time when each was seen, in one pass: the log evidence of a sequence is the sum of
log Z (Dawid 1984). It finds the best and the worst of a set, not the order of neighbours.

One pass counts every row once. Of more passes "sep" takes the averaged factor of a row out before it comes in, so that
none is counted twice; "adf" counts all of them again. Measured on the demo's crystals, 700 for testing, means of four
splits: n = 300, one pass 0.369 eV with 95 % in the 90 % interval, six "sep" 0.371 and 91 %, three "adf" 0.362 and 90 %;
n = 100, 0.429, 0.433 and 0.398. So one pass is the default. From a random start it errs twice as much.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update
from bandgap.inference.assumed_density.belief import Belief, Floats, belief_around, with_average
from bandgap.inference.assumed_density.inclusion import units_on, weight_inclusion
from bandgap.inference.assumed_density.passes import MAX_BATCH, take_in
from bandgap.inference.assumed_density.prior_sites import refine_prior
from bandgap.networks.perceptron import layers_of
from bandgap.posterior import Diagnostics, FactorisedNetworkPosterior
from bandgap.posterior.factorised_network import clipped_features
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import standardiser_for
from bandgap.transfer.shared.method import Scales, TargetData

CLIP: Final = 10.0  # standard deviations of a feature
STILL, FREE = (
    1e-6,
    1.0,
)  # prior variances of hidden layers and output where the output layer moves alone
QUANTILES: Final = 201  # of the weights' inclusion probabilities in the record


@dataclass(frozen=True)
class Passes(Scales):
    """Scales (`recalibration`), candidates for the prior variance v0 of the weights, and how rows are taken in.

    With `output_alone` hidden layers that stay are one more candidate. `likelihood` "sep" counts no row twice; "adf"
    counts all of them in every pass. The first pass takes rows one by one, later ones `batch_size` at once.
    """

    variances: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    output_alone: bool = True
    likelihood: Literal["sep", "adf"] = "sep"
    passes: int = 1
    batch_size: int = 10
    prior_step: bool = True

    def __post_init__(self) -> None:
        good = all(isinstance(v, (int, float)) and 0 < v < math.inf for v in self.variances)
        if not good or not (self.variances or self.output_alone):
            raise ConfigError(
                f"variances = {list(self.variances)}. Accepted: numbers above 0, at least one where the output layer "
                "alone is not tried."
            )
        if self.passes < 1 or not 1 <= self.batch_size <= MAX_BATCH:
            raise ConfigError(
                f"{self.passes} passes, batch_size = {self.batch_size}. Accepted: at least one pass, and 1 to "
                f"{MAX_BATCH} rows at once."
            )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The source's layers [weight, bias] and a target's rows x (n, p), y (n,) on the scales of the transfer."""

    layers: list[Floats]
    x: Floats
    y: Floats


def fit_by_moments(
    source: SourceModel,
    data: TargetData,
    config: Passes,
    *,
    atoms: bool,
    seed: int,
    progress: Progress,
) -> FactorisedNetworkPosterior:
    """Choose v0, then take in the target's training rows (features (n, p), gaps in eV); always on the CPU."""
    progress(Update("preparing the transfer"))
    standardiser = standardiser_for(
        source,
        data.features,
        data.gaps_eV,
        statistics=config.standardise,
        gap_scale=config.gap_scale,
    )
    x = clipped_features(standardiser, data.features, limit=CLIP)
    layers = [layer.double().numpy() for layer in layers_of(source.params)]
    problem = _Problem(layers, x, standardiser.gaps(data.gaps_eV))
    variances, figures = _chosen(problem, config, atoms=atoms, seed=seed, progress=progress)
    belief = start = belief_around(problem.layers, variances)
    rng, log_z = _stream(seed, 1), np.zeros(0)
    for number in range(config.passes):
        batch = config.batch_size if number else 1
        phase = f"pass {number + 1} of {config.passes}"
        belief, taken = take_in(
            belief, x, problem.y, rng=rng, batch=batch, atoms=atoms, phase=phase, progress=progress
        )
        if not number:
            log_z = taken.log_z
            belief = with_average(belief, start, n=len(x)) if config.likelihood == "sep" else belief
        belief = refine_prior(belief) if config.prior_step else belief
    progress(Update("passes over the crystals", config.passes, config.passes))
    figures |= _figures(belief, log_z, clipped=int((np.abs(x) == CLIP).any(1).sum()))
    found = Diagnostics(
        figures, _warnings(config, figures, n=len(x)), _inclusion(belief, x) if atoms else {}
    )
    return FactorisedNetworkPosterior(standardiser, belief.weights, belief.noise, CLIP, found)


def _chosen(
    problem: _Problem, config: Passes, *, atoms: bool, seed: int, progress: Progress
) -> tuple[tuple[float, ...], dict[str, float]]:
    """Return the prior variances of the layers, and the log evidence a row of all that were tried."""
    levels = len(problem.layers)
    tried = {f"{v:g}": (float(v),) * levels for v in config.variances}
    if config.output_alone:
        tried["output_alone"] = (STILL,) * (levels - 1) + (FREE,)
    scores: dict[str, float] = {}
    for name, variances in tried.items() if len(tried) > 1 else ():
        start = belief_around(problem.layers, variances)
        phase = f"prior variance {name.replace('_', ' ')}"
        _, taken = take_in(
            start,
            problem.x,
            problem.y,
            rng=_stream(seed, 0),
            atoms=atoms,
            phase=phase,
            progress=progress,
        )
        scores[name] = float(taken.log_z.mean())
    best = max(scores, key=lambda name: scores[name]) if scores else next(iter(tried))
    figures = {f"log_evidence_a_row_at_{name}": score for name, score in scores.items()}
    return tried[best], figures | {
        "prior_variance": tried[best][0],
        "prior_variance_output": tried[best][-1],
    }


def _figures(belief: Belief, log_z: Floats, *, clipped: int) -> dict[str, float]:
    layers = {
        f"variance_layer_{i}": gamma.variance for i, gamma in enumerate(belief.precisions, start=1)
    }
    return {"log_evidence": float(log_z.sum()), "clipped_rows": float(clipped), **layers}


def _warnings(config: Passes, figures: dict[str, float], *, n: int) -> tuple[str, ...]:
    """Return what must stand beside the result."""
    found = []
    if config.likelihood == "adf" and config.passes > 1:
        found.append(
            f"{config.passes} passes counted every crystal {config.passes} times: what the weights leave open is "
            "understated, and the interval is nearly the same for familiar and for strange crystals. "
            'The likelihood "sep" counts each once.'
        )
    if figures["clipped_rows"]:
        found.append(
            f"{figures['clipped_rows']:.0f} of {n} training structures have features beyond {CLIP:g} standard "
            "deviations, which were moved there: they lie far from what the network's inputs are scaled to."
        )
    return tuple(found)


def _inclusion(belief: Belief, x: Floats) -> dict[str, Floats]:
    """Return quantiles of the inclusion probabilities of each layer's weights, and those of all hidden units."""
    on = units_on(belief.weights, x)
    points = np.linspace(0.0, 1.0, QUANTILES)
    by_layer = [np.quantile(layer, points) for layer in weight_inclusion(belief.weights, on)]
    record = {"inclusion.weights": np.stack(by_layer, axis=1)[None]}
    return record | {
        f"inclusion.units.{i}": units.mean(0)[None] for i, units in enumerate(on, start=1)
    }


def _stream(seed: int, number: int) -> np.random.Generator:
    """Return the generator of one part of the work."""
    return np.random.default_rng([seed, number])
