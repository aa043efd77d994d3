"""NPTL: nonparametric transfer learning by the posterior bootstrap, trained as one stack.

Lee, Nam, Fong and Lee (2024), "Enhancing transfer learning with flexible nonparametric posterior
sampling", arXiv:2403.07282, algorithm 1: the target distribution has the prior DP(alpha, F_pi),
whose base measure F_pi puts the linear probe's values on the target's own inputs. Sample m draws
block Dirichlet weights w of the n rows and w' of the n pseudo rows and minimises, from the source's
hidden layers and the probe's output layer,

    (1 / 2n) sum_i [ w_i l(y_i, f(x_i)) + w'_i l(f_probe(x_i), f(x_i)) ],   l half the squared error

The prior's share of the weight is alpha / (n + alpha) on average. Both rows of one input collapse
to one of weight w + w' (`inference/batch/bootstrap.py`). Networks predict with equal weight.
Choices where the paper is silent: the probe is a ridge regression (`linear_probe`); alpha differs
from 1 only for a clear gain on held-out rows; there is one noise for all rows.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import torch

from bandgap.foundation import citations
from bandgap.foundation.config import AtLeastTwo, Candidates, Count
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.base_measure import BaseMeasure, dirichlet_weights
from bandgap.inference.batch.bootstrap import block_weights, collapse, stream
from bandgap.inference.batch.penalties import Penalty
from bandgap.inference.batch.training import StackTraining
from bandgap.posterior import Floats, NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import HeldOut, Start
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import Members, Plan, Sample, Setting, fresh_head
from bandgap.transfer.shared.stacked import fit_stacked, stacked_posterior, train_more

# With alpha below 1 the share of the prior is less than 0.5 % for a few hundred rows.
ALPHAS = (0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0)
DEFAULT_ALPHA = 1.0

Pseudo = Literal["point", "noise", "drawn"]
HeadStart = Literal["probed", "fresh_head"]


@dataclass(frozen=True)
class NptlConfig(Scales):
    """Numbers of samples, candidates for alpha, blocks, pseudo rows, scales and training.

    There are `samples` networks, and `choice_samples` for each alpha; one value in `alphas` fixes
    alpha. `pseudo` "noise" adds the probe's residual noise to its values, in each sample
    differently. "drawn" draws pseudo-observations from the base measure instead of one at each row
    (Ott 2022, algorithm 1): the target's inputs with replacement, and the probe's values with
    noise. Then each observation has its own weight, and `blocks` is not used. `start` "fresh_head"
    starts the output layer at random instead of at the probe. `sigma` says which rows choose alpha
    and the noise (`folds`).

    Parameters
    ----------
    samples
        Number of networks. The paper has 10; 20 because the sampling error of the averaged
        prediction falls with their number, and 20 are trained in seconds.
    """

    samples: Count = 20
    alphas: Candidates = ALPHAS
    choice_samples: Count = 10
    blocks: AtLeastTwo = 10
    pseudo: Pseudo = "point"
    start: HeadStart = "probed"
    sigma: HeldOut = "auto"
    training: StackTraining = StackTraining()


def fit(
    source: SourceModel, data: TargetData, config: NptlConfig, fitting: Fitting
) -> NetworkPosterior:
    """Draw and train all samples on the training rows (features (n, p), gaps in eV)."""
    trained = fit_stacked(source, data, recipe_of(config), plan_of(config), fitting)
    n = trained.start.n_trained
    figures = trained.figures | {"prior_share": trained.value / (n + trained.value)}
    return stacked_posterior(source, replace(trained, figures=figures), seed=fitting.seed)


def extend(
    posterior: NetworkPosterior,
    source: SourceModel,
    data: TargetData,
    config: NptlConfig,
    *,
    samples: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> NetworkPosterior:
    """Return the posterior with samples M + 1 to `samples` added.

    They are those of a fit with more samples. Source, data and settings are those of the first fit,
    whose alpha and noise are used.
    """
    n_present = posterior.n_draws
    if samples <= n_present:
        raise ConfigError(
            f"nptl: the posterior has {n_present} samples, {samples} were requested. Request more."
        )
    trained = train_more(
        source,
        data,
        recipe_of(config),
        plan_of(config),
        numbers=range(n_present, samples),
        value=posterior.diagnostics.figures["alpha"],
        sigma_eV=float(posterior.sigma_eV[0, 0]),
        seed=posterior.seed,
        device=device,
        progress=progress,
    )
    more = stacked_posterior(source, trained, seed=posterior.seed)
    return replace(
        posterior,
        coordinates=torch.cat([posterior.coordinates, more.coordinates], 1),
        scale_1=torch.cat([posterior.scale_1, more.scale_1], 1),
        upper=tuple(torch.cat(pair, 1) for pair in zip(posterior.upper, more.upper, strict=True)),
        sigma=np.full((1, samples), posterior.sigma[0, 0]),
    )


def plan_of(config: NptlConfig) -> Plan:
    """Return the settings of the stack; raises ConfigError for invalid values."""
    setting = Setting("alpha", config.alphas, DEFAULT_ALPHA)
    return Plan(
        config.samples, config.choice_samples, setting, config.sigma, config.scales, config.training
    )


def recipe_of(config: NptlConfig) -> "BootstrapRecipe":
    """Return how samples are drawn."""
    return BootstrapRecipe(config.blocks, config.pseudo, config.start)


@dataclass(frozen=True)
class BootstrapRecipe:
    """Random weights and labels of each sample at one alpha."""

    blocks: int
    pseudo: Pseudo = "point"
    start: HeadStart = "probed"

    def sample(self, start: Start, number: int, *, value: float, seed: int) -> Sample:
        """Draw the weights of sample `number` and collapse rows and pseudo rows."""
        fold = None if start.fold < 0 else start.fold
        hidden = start.hidden[start.trained]
        y = start.y[start.trained]
        labels = start.probe.predict(hidden)
        if self.pseudo == "drawn":
            sd = float(np.sqrt(start.probe.residual_variance))
            rng = stream(seed, number, "weights", fold=fold)
            drawn = drawn_rows(y, labels, sd, alpha=value, rng=rng)
            return Sample(*drawn, self._head(start, number, seed))
        if self.pseudo == "noise":
            noise = stream(seed, number, "pseudo_noise", fold=fold).standard_normal(y.size)
            labels = labels + np.sqrt(start.probe.residual_variance) * noise
        weights = block_weights(
            y.size, blocks=self.blocks, alpha=value, rng=stream(seed, number, "weights", fold=fold)
        )
        return Sample(*collapse(y, labels, weights), self._head(start, number, seed))

    def _head(self, start: Start, number: int, seed: int) -> Floats:
        """Return the start of the output layer of a sample."""
        if self.start == "probed":
            return start.probe.head
        fold = None if start.fold < 0 else start.fold
        return fresh_head(start, stream(seed, number, "head", fold=fold))

    def penalty(self, members: Members) -> Penalty | None:
        """Return no penalty."""
        return None


def drawn_rows(
    y: Floats, values: Floats, sd: float, *, alpha: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return weights (n,) of mean 2 and labels (n,) of rows and drawn pseudo-observations.

    Pseudo-observations are those of the base measure: rows drawn with replacement, with the probe's
    `values` (n,) plus noise of this sd. All observations of one input collapse to one. Weights,
    rows and noise have separate streams, so that two alphas have the same draws of the data.
    """
    n = y.size
    m = BaseMeasure(alpha).n_pseudo
    of_weights, of_rows, of_noise = rng.spawn(3)
    places = of_rows.integers(n, size=m)
    pseudo = values[places] + sd * of_noise.standard_normal(m)
    generator = torch.Generator().manual_seed(int(of_weights.integers(2**62)))
    draws = dirichlet_weights(n, m, alpha=alpha, n_draws=1, generator=generator)
    weights = 2.0 * n * draws[0].numpy()
    omega = weights[:n] + np.bincount(places, weights[n:], n)
    total = weights[:n] * y + np.bincount(places, weights[n:] * pseudo, n)
    return omega, total / omega


METHOD: Final = Method(
    name="nptl",
    family="many trained networks",
    standing="alternative",
    title="Nonparametric transfer (NPTL)",
    summary=(
        "Trains many networks, each with random weights for the crystals and for predictions "
        "of the source model."
    ),
    references=(citations.NPTL,),
    duration="about half a minute for 200 crystals on one core",
    cost=Cost(5.3, 22),
    config=NptlConfig,
    fit=fit,
    new_elements=True,
)
