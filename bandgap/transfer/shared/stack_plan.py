"""The plan of an ensemble: rows of each network, the setting to choose, and numbers of networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from torch import Tensor

from bandgap.inference.batch.bootstrap import stream
from bandgap.inference.batch.penalties import Penalty
from bandgap.inference.batch.training import Cycles, StackTraining
from bandgap.posterior import Floats
from bandgap.transfer.shared.folds import HeldOut, Start
from bandgap.transfer.shared.method import ScaleChoice

Diversity = Literal["order", "fresh_head"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Training rows of one network, and the start of its output layer.

    Attributes
    ----------
    omega
        Weights (n_trained,) of the rows, with mean 2.
    labels
        Labels (n_trained,) of the rows.
    head
        Start of the output layer (q + 1,).
    variance
        Variance of the noise in the energy, where SGHMC samples it.
    """

    omega: Floats
    labels: Floats
    head: Floats
    variance: float = 1.0


@dataclass(frozen=True, eq=False)
class Members:
    """The S networks of a stack as penalties see them, on its device."""

    values: Tensor  # of the setting, (S,)
    n_rows: Tensor  # that are trained on, (S,)
    between: Sequence[Tensor]  # the source's layers between first and last, (in + 1, out) each


class Recipe(Protocol):
    """What one method adds to the stack."""

    def sample(self, start: Start, number: int, *, value: float, seed: int) -> Sample:
        """Return sample `number` at one value of the setting; it depends on the arguments alone."""
        ...

    def penalty(self, members: Members) -> Penalty | None:
        """Return the penalty of all networks of a stack."""
        ...


@dataclass(frozen=True)
class Setting:
    """A setting that held-out rows choose.

    Attributes
    ----------
    name
        Name in figures.
    values
        Candidates.
    default
        Value that is replaced only for a clear gain.
    """

    name: str
    values: tuple[float, ...]
    default: float

    @property
    def default_index(self) -> int:
        """Index of the default, or of the value next to it."""
        return int(np.argmin(np.abs(np.array(self.values) - self.default)))


@dataclass(frozen=True)
class EqualWeightsRecipe:
    """All rows with their own labels and the same weight."""

    diversity: Diversity = "order"

    def sample(self, start: Start, number: int, *, value: float, seed: int) -> Sample:
        """Return weights of 2 and the labels."""
        y = start.y[start.trained]
        fold = None if start.fold < 0 else start.fold
        head = start.probe.head
        if self.diversity == "fresh_head":
            head = fresh_head(start, stream(seed, number, "head", fold=fold))
        return Sample(np.full(y.size, 2.0), y, head)

    def penalty(self, members: Members) -> Penalty | None:
        """Return no penalty."""
        return None


NO_SETTING = Setting("none", (0.0,), 0.0)


@dataclass(frozen=True)
class Plan:
    """How many networks are trained, how, and on whose scales."""

    samples: int
    choice_samples: int  # networks of each value and fold
    setting: Setting
    held_out: HeldOut
    scales: ScaleChoice
    training: StackTraining
    cycles: Cycles | None = None
    # Predict with the mean of the weights instead of the mean of the predictions.
    averaged: bool = False


def fresh_head(start: Start, rng: np.random.Generator) -> Floats:
    """Draw the output layer of a new network: Glorot-uniform weights, bias 0."""
    q = start.hidden.shape[1]
    limit = np.sqrt(6.0 / (q + 1))
    return np.append(rng.uniform(-limit, limit, q), 0.0)
