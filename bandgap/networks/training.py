"""Least-squares training of a network by Adam with early stopping (Abba 2023, appendix A.2).

Reference for Adam: Kingma and Ba (2015).
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bandgap.foundation.config import Count, NonNegative, Positive, ProperShare, Settings
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.adam import Adam
from bandgap.networks.perceptron import Params, forward, layer_of
from bandgap.networks.row_blocks import Rows

# The setting of Abba (2023).
ADAM_EPS = 1e-7

# From parameters and x (n, p) to values (n,), as `forward`.
Model = Callable[[Params, Tensor], Tensor]


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """Settings of the training.

    The loss is the mean squared error + l1 sum|theta| + l2 sum theta^2, in standardised units. The
    weights of the epoch with the smallest validation error are returned.

    The paper is Abba (2023), appendix A.2. Measurements are on the page of the methods, under
    "Training of a source network".

    Parameters
    ----------
    learning_rate, max_epochs
        Settings of Adam.
    batch_size
        Rows of a step. The paper has 16 to 128 by cross-validation; 64 because the measured errors
        of 16, 32 and 128 differ from it by less than two standard errors.
    l1, l2
        Penalties.
    patience
        Epochs without a smaller validation error after which the training ends. The paper has 6; 12
        because with it and the plateau below, the measured error is smaller.
    plateau_epochs
        Epochs without a smaller validation error after which the learning rate falls. The paper
        does not state it; 4 because the learning rate then falls twice before the training ends.
    plateau_factor
        Factor by which the learning rate falls. The paper has 0.7; 0.5 because with it and the
        patience above, the measured error is smaller.
    validation_share
        Share of the rows that is held out.
    """

    learning_rate: Positive = 1e-3
    l1: NonNegative = 1e-4
    l2: NonNegative = 1e-4
    batch_size: Count = 64
    max_epochs: Count = 150
    patience: Count = 12
    plateau_epochs: Count = 4
    plateau_factor: Positive = 0.5
    validation_share: ProperShare = 0.2


@dataclass(frozen=True)
class Epoch:
    """Mean squared errors of one epoch in squared standardised units."""

    train: float
    validation: float


@dataclass(frozen=True, eq=False)
class RowSplit:
    """Indices of the rows to train on, and of those held out for early stopping."""

    training: Tensor
    held_out: Tensor

    def __post_init__(self) -> None:
        n_both = int(torch.isin(self.training, self.held_out).sum())
        if not self.training.numel() or not self.held_out.numel() or n_both:
            raise InputError(
                f"{self.training.numel()} rows to train on and {self.held_out.numel()} held out, "
                f"{n_both} of them in both. Give at least one row of each kind, and none twice."
            )

    @property
    def halves(self) -> tuple[Tensor, Tensor]:
        """Two halves of the held-out rows; the first one is empty if there is one row."""
        middle = self.held_out.numel() // 2
        return self.held_out[:middle], self.held_out[middle:]


class HalfErrors:
    """The error of each half of the held-out rows at the epoch that the other half chooses.

    The rows that choose the epoch of the smallest error have too small an error there. Here no row
    has a part in the choice of the epoch at which it is measured. Which epoch comes last, and the
    learning rate, still depend on all held-out rows.
    """

    def __init__(self) -> None:
        self._smallest = [math.inf, math.inf]
        self._measured = [math.nan, math.nan]

    def add(self, squared_errors: Tensor) -> None:
        """Note the squared errors (n,) of the held-out rows at the end of an epoch."""
        middle = len(squared_errors) // 2
        if not middle:
            return
        halves = [float(half.mean()) for half in (squared_errors[:middle], squared_errors[middle:])]
        for k in (0, 1):
            if halves[k] < self._smallest[k]:
                self._smallest[k] = halves[k]
                self._measured[k] = halves[1 - k]

    @property
    def second(self) -> float:
        """Mean squared error of the second half at the epoch of the first, NaN for one row."""
        return self._measured[0]

    @property
    def both(self) -> float:
        """Mean squared error of both halves, NaN for one row."""
        return sum(self._measured) / 2


@dataclass(frozen=True, eq=False)
class Trained:
    """Best weights, errors of the epochs, and standardised residuals y - f of the held-out rows.

    `half_errors` are errors of the held-out rows that did not choose the epoch.
    """

    params: Params
    history: tuple[Epoch, ...]
    validation_residuals: Tensor
    half_errors: HalfErrors = field(default_factory=HalfErrors)

    @property
    def validation_mse(self) -> float:
        """Mean squared error of the best weights on the held-out rows, in standardised units."""
        return float(self.validation_residuals.double().square().mean())


def split_rows(n: int, *, share: float, generator: torch.Generator) -> RowSplit:
    """Hold out a share of n rows at random, at least one; raise InputError below 3 rows."""
    if n < 3:
        raise InputError(
            f"{n} labelled structures are too few to train on. Give at least 3, better 50 or more."
        )
    order = torch.randperm(n, generator=generator)
    n_held_out = min(max(1, round(share * n)), n - 1)
    return RowSplit(order[n_held_out:], order[:n_held_out])


def train(
    start: Params,
    x: Rows,
    y: Tensor,
    *,
    config: TrainingConfig,
    generator: torch.Generator,
    frozen: Collection[int] = (),
    rate_shares: Mapping[int, float] | None = None,
    split: RowSplit | None = None,
    model: Model = forward,
    phase: str = "training",
    progress: Progress = no_progress,
) -> Trained:
    """Train a network from `start`.

    Parameters
    ----------
    start
        First weights.
    x, y
        Standardised features (n, p) and gaps (n,).
    config, generator
        Settings and random numbers of the training.
    frozen
        Numbers (from 1) of the layers that are not changed and not penalised. In the others,
        weights and biases are penalised alike.
    rate_shares
        Learning rate of layers as a share of that of the settings, by number of the layer (from
        1); 1 for a layer that is not named.
    split
        Split of the rows; by default a random one (`split_rows`).
    model
        Function that is trained on the training rows; held-out rows always use `forward`.

    Raises
    ------
    InputError
        For fewer than 3 rows.
    ConfigError
        If all layers are frozen.
    """
    if split is None:
        split = split_rows(y.shape[0], share=config.validation_share, generator=generator)
    held_out = split.held_out
    params = {
        n: value.detach().clone().requires_grad_(layer_of(n) not in frozen)
        for n, value in start.items()
    }
    shares = rate_shares or {}
    trainable: dict[float, list[Tensor]] = {}
    for name, value in params.items():
        if value.requires_grad:
            trainable.setdefault(shares.get(layer_of(name), 1.0), []).append(value)
    if not trainable:
        raise ConfigError(
            f"layers {sorted(frozen)} are frozen: nothing is left to train. Leave one layer out."
        )
    optimiser = Adam(trainable, rate=config.learning_rate, eps=ADAM_EPS)
    best = float("inf")
    best_params = {name: value.detach().clone() for name, value in params.items()}
    n_waiting = 0
    history: list[Epoch] = []
    half_errors = HalfErrors()
    for epoch in range(config.max_epochs):
        loss = one_epoch(
            params,
            x,
            y,
            split.training,
            optimiser=optimiser,
            batch_size=config.batch_size,
            l1=config.l1,
            l2=config.l2,
            generator=generator,
            model=model,
        )
        with torch.no_grad():
            squared_errors = (forward(params, x[held_out]) - y[held_out]) ** 2
        validation = float(squared_errors.mean())
        half_errors.add(squared_errors)
        history.append(Epoch(loss, validation))
        progress(Update(phase, epoch + 1, config.max_epochs, values={"validation_mse": validation}))
        if validation < best:
            best = validation
            n_waiting = 0
            best_params = {name: value.detach().clone() for name, value in params.items()}
            continue
        n_waiting += 1
        if n_waiting % config.plateau_epochs == 0:
            optimiser.rate *= config.plateau_factor
        if n_waiting >= config.patience:
            break
    with torch.no_grad():
        residuals = y[held_out] - forward(best_params, x[held_out])
    return Trained(best_params, tuple(history), residuals, half_errors)


def one_epoch(
    params: Params,
    x: Rows,
    y: Tensor,
    rows: Tensor,
    *,
    optimiser: Adam | torch.optim.Optimizer,
    batch_size: int,
    l1: float,
    l2: float,
    generator: torch.Generator,
    model: Model = forward,
) -> float:
    """Train for one epoch in a random order of the rows; return the mean squared error during it.

    The loss is the mean squared error + l1 sum|theta| + l2 sum theta^2 over the parameters that
    require a gradient.
    """
    total = 0.0
    trainable = [p for p in params.values() if p.requires_grad]
    for batch in torch.split(rows[torch.randperm(rows.shape[0], generator=generator)], batch_size):
        optimiser.zero_grad()
        error = ((model(params, x[batch]) - y[batch]) ** 2).mean()
        penalty = sum(l1 * p.abs().sum() + l2 * (p**2).sum() for p in trainable)
        (error + penalty).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += float(error.detach()) * batch.shape[0]
    return total / rows.shape[0]
