"""Training of one network on several source sets at once: shared hidden layers, one output for each set.

Each step takes the same number of rows of every set, so that a small set counts as much as a large one; the loss is the
mean squared error of every row's own output, on gaps standardised by set. A set may bring its rows in other features,
such as those of displaced geometries: a step takes either kind with equal chance. AdamW (Loshchilov and Hutter, 2019)
with a short warm-up and a cosine schedule, dropout after every hidden layer; the last weights are returned, as the
learning rate has then gone to zero.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.perceptron import Params, forward, layer_of
from bandgap.networks.training import Epoch, RowSplit, split_rows

_REPORT_EVERY = 50  # steps between two updates


@dataclass(frozen=True)
class JointTrainingConfig:
    """How a network with several outputs is trained; `batch_size` rows a step, of all sets together."""

    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    dropout: float = 0.2
    batch_size: int = 256
    steps: int = 4_000
    warmup_steps: int = 300
    largest_gradient: float = 5.0
    validation_share: float = 0.05

    def __post_init__(self) -> None:
        counts_fine = min(self.batch_size, self.steps) >= 1 and self.warmup_steps >= 0
        shares_fine = 0 < self.validation_share < 1 and 0 <= self.dropout < 1
        if not (
            counts_fine and shares_fine and self.learning_rate > 0 and self.largest_gradient > 0
        ):
            raise ConfigError(
                f"joint training: {self}. Accepted: whole numbers from 1, shares inside (0, 1) (dropout may be 0), a "
                "learning rate and a largest gradient above 0."
            )
        if self.weight_decay < 0:
            raise ConfigError(
                f"joint training: weight decay {self.weight_decay}. Accepted: 0 or more."
            )


@dataclass(frozen=True, eq=False)
class JointlyTrained:
    """Weights, the split of every set, the mean squared errors of each set's held-out rows, and the history.

    Errors are in squared standardised units; the history holds the means over sets at twenty moments.
    """

    params: Params
    splits: tuple[RowSplit, ...]
    validation_mse: tuple[float, ...]
    history: tuple[Epoch, ...]


def train_jointly(
    start: Params,
    sets: Sequence[tuple[Tensor, Tensor]],
    *,
    config: JointTrainingConfig,
    generator: torch.Generator,
    alternatives: Sequence[Tensor | None] = (),
    phase: str = "training",
    progress: Progress = no_progress,
) -> JointlyTrained:
    """Train from `start`, whose output layer has one row for each of `sets`: standardised x (n, p) and y (n,).

    `alternatives` are other features (n, p) of the rows of each set, None for a set without; rows are held out in both,
    and errors are those of x. Raises InputError when the number of outputs is not that of the sets, a set has fewer
    than 3 rows, and alternatives have other shapes than x.
    """
    params = {name: value.detach().clone().requires_grad_() for name, value in start.items()}
    n_outputs = params[f"bias.{max(map(layer_of, params))}"].shape[0]
    if n_outputs != len(sets):
        raise InputError(
            f"{len(sets)} source sets but a network with {n_outputs} outputs. Give one output for each."
        )
    _check_alternatives(sets, alternatives)
    splits = tuple(
        split_rows(y.shape[0], share=config.validation_share, generator=generator) for _, y in sets
    )
    shares = [
        len(part)
        for part in torch.arange(max(config.batch_size, n_outputs)).tensor_split(n_outputs)
    ]
    batches = _batches(sets, alternatives, splits, shares, generator=generator)
    optimiser = torch.optim.AdamW(
        params.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: _rate(i, config))
    which = torch.repeat_interleave(torch.arange(n_outputs), torch.tensor(shares)).to(
        sets[0][0].device
    )
    history: list[Epoch] = []
    recent = 0.0
    for i in range(config.steps):
        x, y = next(batches)
        optimiser.zero_grad()
        output = forward(params, x, dropout=config.dropout, generator=generator)
        loss = ((output.reshape(-1, n_outputs).gather(1, which[:, None])[:, 0] - y) ** 2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(params.values(), config.largest_gradient)
        optimiser.step()
        schedule.step()
        recent = float(loss.detach()) if i == 0 else 0.98 * recent + 0.02 * float(loss.detach())
        if (i + 1) % max(1, config.steps // 20) == 0 or i + 1 == config.steps:
            history.append(Epoch(recent, float(torch.tensor(_errors(params, sets, splits)).mean())))
        if (i + 1) % _REPORT_EVERY == 0 or i + 1 == config.steps:
            progress(Update(phase, i + 1, config.steps, values={"training_mse": recent}))
    final = {name: value.detach() for name, value in params.items()}
    return JointlyTrained(final, splits, tuple(_errors(final, sets, splits)), tuple(history))


def _errors(
    params: Params, sets: Sequence[tuple[Tensor, Tensor]], splits: Sequence[RowSplit]
) -> list[float]:
    """Return the mean squared error of every set's own output on its held-out rows."""
    errors = []
    with torch.no_grad():
        for k, ((x, y), split) in enumerate(zip(sets, splits, strict=True)):
            output = forward(params, x[split.held_out]).reshape(len(split.held_out), -1)[:, k]
            errors.append(float(((output - y[split.held_out]).double() ** 2).mean()))
    return errors


def _check_alternatives(
    sets: Sequence[tuple[Tensor, Tensor]], alternatives: Sequence[Tensor | None]
) -> None:
    shapes = [tuple(x.shape) for x, _ in sets]
    found = [
        shape if other is None else tuple(other.shape)
        for shape, other in zip(shapes, alternatives, strict=False)
    ]
    if alternatives and (found != shapes or len(alternatives) != len(sets)):
        raise InputError(
            f"source sets have features of shapes {shapes}, their alternatives {found}. Give as many rows and features."
        )


def _batches(
    sets: Sequence[tuple[Tensor, Tensor]],
    alternatives: Sequence[Tensor | None],
    splits: Sequence[RowSplit],
    sizes: Sequence[int],
    *,
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x (b, p) and y (b,) without end: so many rows of every set, in the one or the other of its features."""
    streams = [
        _rows(s.training, size, generator=generator) for s, size in zip(splits, sizes, strict=True)
    ]
    others = alternatives or [None] * len(sets)
    while True:
        rows = [next(stream) for stream in streams]
        views = [_either(x, other, generator) for (x, _), other in zip(sets, others, strict=True)]
        x = torch.cat([view[r] for view, r in zip(views, rows, strict=True)])
        yield x, torch.cat([y[r] for (_, y), r in zip(sets, rows, strict=True)])


def _either(x: Tensor, other: Tensor | None, generator: torch.Generator) -> Tensor:
    if other is None:  # nothing is drawn: a training without alternatives stays what it was
        return x
    return other if int(torch.randint(2, (), generator=generator)) else x


def _rows(rows: Tensor, size: int, *, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield batches of `size` of the given rows without end, every row once before any comes again."""
    left = rows[:0]
    while True:
        while len(left) < size:
            left = torch.cat([left, rows[torch.randperm(len(rows), generator=generator)]])
        yield left[:size]
        left = left[size:]


def _rate(step: int, config: JointTrainingConfig) -> float:
    """Return the share of the learning rate at a step: linear warm-up, then half a cosine down to zero."""
    warm = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    return warm * 0.5 * (1.0 + math.cos(math.pi * step / config.steps))
