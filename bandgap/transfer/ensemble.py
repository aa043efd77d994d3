"""An ensemble of fine-tunings: networks trained on the same rows, predicting with equal weight.

Lakshminarayanan, Pritzel and Blundell (2017), for transfer. With "order" all members start from the
source's hidden layers and the linear probe, and differ only in the order of their mini-batches.
With "fresh_head" their output layers start at random. Training and noise are those of `nptl`, in
which each sample weighs the rows differently.
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation.config import Count
from bandgap.foundation.errors import ConfigError
from bandgap.inference.batch.training import StackTraining
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import HeldOut
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import NO_SETTING, Diversity, EqualWeightsRecipe, Plan
from bandgap.transfer.shared.stacked import fit_stacked, stacked_posterior


@dataclass(frozen=True)
class EnsembleConfig(Scales):
    """Numbers of networks, what makes them differ, held-out rows, scales and training.

    `members` networks predict; `fold_members` are trained for each fold, and their errors fit the
    noise.

    Parameters
    ----------
    diversity
        What makes networks differ (`stack_plan`). The paper does not state it; "order" because all
        networks then have the start of NPTL's samples.
    """

    members: Count = 10
    fold_members: Count = 5
    diversity: Diversity = "order"
    sigma: HeldOut = "auto"
    training: StackTraining = StackTraining()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.diversity == "order" and self.training.order == "shared":
            raise ConfigError(
                "ensemble: members that differ in the order of their rows alone cannot share it. "
                "Set diversity=fresh_head, or order=own of the training."
            )


def fit(
    source: SourceModel, data: TargetData, config: EnsembleConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train all members on the training rows (features (n, p), gaps in eV)."""
    recipe = EqualWeightsRecipe(config.diversity)
    trained = fit_stacked(source, data, recipe, _plan(config), fitting)
    return stacked_posterior(source, trained, seed=fitting.seed)


def _plan(config: EnsembleConfig) -> Plan:
    return Plan(
        config.members,
        config.fold_members,
        NO_SETTING,
        config.sigma,
        config.scales,
        config.training,
    )


METHOD: Final = Method(
    name="ensemble",
    family="many trained networks",
    standing="alternative",
    title="Ensemble of fine-tunings",
    summary=(
        "Trains several networks from the source model's weights, each with another order of "
        "the crystals."
    ),
    references=(
        'B. Lakshminarayanan, A. Pritzel and C. Blundell, "Simple and scalable predictive '
        'uncertainty estimation using deep ensembles", NeurIPS 2017.',
    ),
    duration="seconds",
    cost=Cost(0.6, 1.6),
    config=EnsembleConfig,
    fit=fit,
    new_elements=True,
)
