"""PTYL: an ensemble of fine-tunings under a prior from the source's training.

Shwartz-Ziv and others (2022, "Pre-Train Your Loss"): mean loss + (1 / 2n) (phi - mu)' S^-1 (phi -
mu), phi the hidden layers, mu and S = gamma S_swag + eps I from snapshots of the source
(`swag.py`). The output layer is free and starts at the linear probe. Held-out rows choose gamma.
Members differ in the order of their mini-batches. The prior is not isotropic, so training always
uses full coordinates; L2SP is about five times faster.

eps = 0.1 (Lee and others 2024, appendix B.2) is a prior standard deviation of 0.3 for weights of
about 0.03: nearly flat. Smaller values pull to the directions in which the source's training moved.
"""

from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from bandgap.foundation.config import Candidates, Count, Positive
from bandgap.foundation.errors import InputError
from bandgap.inference.batch.penalties import PTYL
from bandgap.inference.batch.training import StackTraining
from bandgap.networks.swag import Snapshots, snapshot_prior
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import HeldOut, first_weights
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import EqualWeightsRecipe, Members, Plan, Setting
from bandgap.transfer.shared.stacked import fit_stacked, stacked_posterior

GAMMAS = (1e-2, 1.0, 1e2, 1e4, 1e6)
DEFAULT_GAMMA = 1e2


@dataclass(frozen=True)
class PTYLConfig(Scales):
    """Candidates for gamma, eps, numbers of networks, held-out rows, scales and training.

    One value in `gammas` fixes gamma. `members` networks predict, `fold_members` are trained for
    each value and fold.
    """

    members: Count = 10
    gammas: Candidates = GAMMAS
    eps: Positive = 0.1
    fold_members: Count = 1
    sigma: HeldOut = "auto"
    training: StackTraining = StackTraining()


def fit(
    source: SourceModel, data: TargetData, config: PTYLConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train all members on the target's training rows (features (n, p), gaps in eV).

    Raises InputError where the source has no snapshots.
    """
    snapshots = snapshots_of(source, "ptyl")
    hidden = tuple(range(1, source.network.n_layers))
    recipe = PTYLRecipe(
        snapshots=snapshots, first=first_weights(source).T, hidden=hidden, eps=config.eps
    )
    trained = fit_stacked(source, data, recipe, _plan(config), fitting)
    return stacked_posterior(source, trained, seed=fitting.seed)


def snapshots_of(source: SourceModel, name: str) -> Snapshots:
    """Return the snapshots that the prior of method `name` is computed from.

    Raises InputError where the source has none.
    """
    if source.snapshots is None:
        raise InputError(
            f"{name}: the source model has no snapshots of its training, from which the prior is "
            "computed. Train it with `bandgap train-source --snapshots 20` (several sets: `bandgap "
            "train-sources --snapshots 20`), or add them with `bandgap source-extras --snapshots "
            "20`; of several sets, to the one that the transfer starts from."
        )
    return source.snapshots


@dataclass(frozen=True, eq=False, kw_only=True)
class PTYLRecipe(EqualWeightsRecipe):
    """All rows with the same weight, and the prior at the gamma of each network."""

    snapshots: Snapshots
    first: Tensor  # theta_hat_1, (p + 1, width)
    hidden: tuple[int, ...]
    eps: float

    def penalty(self, members: Members) -> PTYL:
        """Return the penalty of the snapshots' prior at every gamma."""
        gammas, which = torch.unique(members.values, return_inverse=True)
        priors = [
            snapshot_prior(
                self.snapshots,
                gamma=gamma,
                eps=self.eps,
                layers=self.hidden,
                dtype=members.values.dtype,
            )
            for gamma in gammas.tolist()
        ]
        return PTYL.build(priors, first=self.first, which=which, n_rows=members.n_rows)


def _plan(config: PTYLConfig) -> Plan:
    setting = Setting("gamma", config.gammas, DEFAULT_GAMMA)
    training = replace(config.training, coordinates="full")
    return Plan(config.members, config.fold_members, setting, config.sigma, config.scales, training)


METHOD: Final = Method(
    name="ptyl",
    family="many trained networks",
    standing="research",
    title="Fine-tuning under the source's own prior (PTYL)",
    summary=(
        "Trains several networks under a prior from snapshots of the source model's training,"
        " which the source must have."
    ),
    references=(
        'R. Shwartz-Ziv et al., "Pre-train your loss: easy Bayesian transfer learning with '
        'informative priors", NeurIPS 2022.',
    ),
    duration="about a minute for 200 crystals on one core",
    cost=Cost(9, 36),
    config=PTYLConfig,
    fit=fit,
    needs="snapshots",
)
