"""L2SP: fine-tuning with a pull of the hidden layers to the source's weights, as an ensemble.

Li, Grandvalet and Davoine (2018): mean loss + (w / 2) |phi - phi*|^2, phi the hidden layers. The
output layer is free and starts at the linear probe. The result is the posterior mode under phi ~
N(phi*, 1 / (w n) I) at noise 1. The prior is isotropic, so training in the row space of the
training rows is exact for SGD. Held-out rows choose w. Members differ in the order of their
mini-batches.
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation.config import Candidates, Count
from bandgap.inference.batch.penalties import Isotropic
from bandgap.inference.batch.training import StackTraining
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import HeldOut
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import EqualWeightsRecipe, Members, Plan, Setting
from bandgap.transfer.shared.stacked import fit_stacked, stacked_posterior

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
DEFAULT_STRENGTH = 1e-2


@dataclass(frozen=True)
class L2SPConfig(Scales):
    """Candidates for w, numbers of networks, held-out rows, scales and training.

    One value in `strengths` fixes w. `members` networks predict, `fold_members` are trained for
    each value and fold.
    """

    members: Count = 10
    strengths: Candidates = STRENGTHS
    fold_members: Count = 2
    sigma: HeldOut = "auto"
    training: StackTraining = StackTraining()


def fit(
    source: SourceModel, data: TargetData, config: L2SPConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train all members on the training rows (features (n, p), gaps in eV)."""
    trained = fit_stacked(source, data, L2SPRecipe(), _plan(config), fitting)
    return stacked_posterior(source, trained, seed=fitting.seed)


@dataclass(frozen=True)
class L2SPRecipe(EqualWeightsRecipe):
    """All rows with the same weight, and a pull of the strength of each network."""

    def penalty(self, members: Members) -> Isotropic:
        """Return the pull to the source's hidden layers."""
        return Isotropic(members.values, [0.0, *members.between])


def _plan(config: L2SPConfig) -> Plan:
    setting = Setting("strength", config.strengths, DEFAULT_STRENGTH)
    return Plan(
        config.members, config.fold_members, setting, config.sigma, config.scales, config.training
    )


METHOD: Final = Method(
    name="l2sp",
    family="many trained networks",
    standing="research",
    title="Fine-tuning near the source (L2SP)",
    summary=(
        "Trains several networks whose hidden layers are pulled towards the source model. The"
        " data choose the strength."
    ),
    references=(
        'X. Li, Y. Grandvalet and F. Davoine, "Explicit inductive bias for transfer learning with '
        'convolutional networks", ICML 2018.',
    ),
    duration="seconds",
    cost=Cost(0.8, 3.6),
    config=L2SPConfig,
    fit=fit,
    new_elements=True,
)
