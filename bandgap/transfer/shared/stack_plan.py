"""What a method that trains many networks says: how a sample is made, which setting held-out rows choose, how many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.batch.penalties import Penalty
from bandgap.inference.batch.training import Cycles, StackTraining
from bandgap.posterior import Floats
from bandgap.transfer.shared.folds import HeldOut, Start
from bandgap.transfer.shared.method import ScaleChoice


@dataclass(frozen=True, eq=False)
class Sample:
    """Weights omega and labels t of the rows that are trained on, (n_trained,), and start of the output layer."""

    omega: Floats  # of mean 2
    labels: Floats
    head: Floats  # (q + 1,)
    variance: float = 1.0  # of the noise in the energy, where SGHMC samples it


@dataclass(frozen=True, eq=False)
class Members:
    """The S samples of a stack as penalties see them, on its device."""

    values: Tensor  # of the setting, (S,)
    n_rows: Tensor  # that are trained on, (S,)
    variances: Tensor  # of the noise in the energy, (S,)
    between: Sequence[Tensor]  # the source's layers between first and last, (in + 1, out) each


class Recipe(Protocol):
    """What one method puts into the stack."""

    def sample(self, start: Start, number: int, *, value: float, seed: int) -> Sample:
        """Return sample `number` at one value of the method's setting; the same arguments give the same sample."""
        ...

    def penalty(self, of: Members) -> Penalty | None:
        """Return the penalty of all samples of a stack."""
        ...


@dataclass(frozen=True)
class Setting:
    """A setting that held-out rows choose: its name, its values, and the one that is left only for a clear gain."""

    name: str
    values: tuple[float, ...]
    default: float

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values) or min(self.values) < 0:
            raise ConfigError(
                f"{self.name}: values {list(self.values)}. Accepted: at least one number, all from 0, none twice; a "
                "single one fixes it."
            )

    @property
    def default_index(self) -> int:
        """Index of the default, or of the value next to it."""
        return int(np.argmin(np.abs(np.array(self.values) - self.default)))


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
    averaged: bool = (
        False  # predict with the mean of the weights instead of the mean of the predictions
    )

    def __post_init__(self) -> None:
        if min(self.samples, self.choice_samples) < 1:
            raise ConfigError(
                f"{self.samples} samples, {self.choice_samples} to choose by. Accepted: whole numbers from 1."
            )


def fresh_head(start: Start, rng: np.random.Generator) -> Floats:
    """Draw an output layer as a new network has it: Glorot-uniform weights, bias 0."""
    q = start.hidden.shape[1]
    limit = np.sqrt(6.0 / (q + 1))
    return np.append(rng.uniform(-limit, limit, q), 0.0)
