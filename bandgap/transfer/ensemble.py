r"""An ensemble of fine-tunings: networks trained on the same rows from the source, predicting with equal weight.

Lakshminarayanan, Pritzel and Blundell (2017), for transfer: with "order" all members start from the source's hidden
layers and the linear probe and differ in the order of their mini-batches alone; with "fresh_head" also in the start of
their output layers. Training and noise are NPTL's (`nptl.py`), which it is the baseline of: there each sample weighs
the rows differently.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.batch.bootstrap import stream
from bandgap.inference.batch.penalties import Penalty
from bandgap.inference.batch.training import StackTraining
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import HeldOut, Start
from bandgap.transfer.shared.method import Method, Scales, TargetData
from bandgap.transfer.shared.stack_plan import NO_SETTING, Members, Plan, Sample, fresh_head
from bandgap.transfer.shared.stacked import fit_stacked, stacked_posterior

Diversity = Literal["order", "fresh_head"]


@dataclass(frozen=True)
class EnsembleConfig(Scales):
    """Members, those trained for each fold that the noise is fitted by, what makes them differ, scales, training."""

    members: int = 10
    fold_members: int = 5
    diversity: Diversity = "order"
    sigma: HeldOut = "auto"
    training: StackTraining = StackTraining()

    def __post_init__(self) -> None:
        if self.diversity == "order" and self.training.order == "shared":
            raise ConfigError(
                "ensemble: members that differ in the order of their rows alone cannot share it. Set "
                "diversity=fresh_head, or order=own of the training."
            )
        _plan(self)


def fit(
    source: SourceModel,
    data: TargetData,
    config: EnsembleConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> NetworkPosterior:
    """Train all members on the target's training rows (features (n, p), gaps in eV)."""
    recipe = PlainRecipe(config.diversity)
    found = fit_stacked(
        source, data, recipe, _plan(config), seed=seed, device=device, progress=progress
    )
    return stacked_posterior(source, found, seed=seed)


@dataclass(frozen=True)
class PlainRecipe:
    """All rows with their own labels and the same weight."""

    diversity: Diversity = "order"

    def sample(self, start: Start, number: int, *, value: float, seed: int) -> Sample:
        """Return weights of 2 and the labels themselves."""
        y, fold = start.y[start.trained], None if start.fold < 0 else start.fold
        fresh = self.diversity == "fresh_head"
        head = (
            fresh_head(start, stream(seed, number, "head", fold=fold))
            if fresh
            else start.probe.head
        )
        return Sample(np.full(y.size, 2.0), y, head)

    def penalty(self, of: Members) -> Penalty | None:
        """Return none."""
        return None


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
    duration="seconds",
    cost=Cost(0.6, 1.6),
    config=EnsembleConfig,
    fit=fit,
    new_elements=True,
)
