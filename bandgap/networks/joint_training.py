"""Training of one network on several source sets: shared hidden layers, one output for each set.

Each step uses the same number of rows of every set, so that a small set counts as much as a large
one. The loss is the mean squared error of the output of each row's set, on gaps standardised by
set. A set may have alternative features of its rows, such as those of displaced geometries: a step
uses either with equal probability. The optimiser is AdamW (Loshchilov and Hutter, 2019) with a
short warm-up, a cosine schedule and dropout after every hidden layer. The last weights are
returned, because the learning rate is then zero.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.config import (
    Count,
    NonNegative,
    Positive,
    ProperShare,
    Settings,
    ShareBelowOne,
    WholeNumber,
)
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.perceptron import Params, forward, layer_of
from bandgap.networks.training import Epoch, RowSplit, split_rows

# Steps between two progress updates.
_REPORT_EVERY = 50


@dataclass(frozen=True)
class JointTrainingConfig(Settings):
    """Settings of the training of a network with several outputs.

    Parameters
    ----------
    learning_rate, weight_decay, dropout
        Settings of AdamW, and the share of hidden activations set to zero.
    batch_size
        Rows in a step, of all sets together.
    steps, warmup_steps
        Number of steps, and steps over which the learning rate rises.
    largest_gradient
        Norm to which a gradient is clipped.
    validation_share
        Share of the rows of each set that is held out.
    """

    learning_rate: Positive = 2e-3
    weight_decay: NonNegative = 1e-2
    dropout: ShareBelowOne = 0.2
    batch_size: Count = 256
    steps: Count = 4_000
    warmup_steps: WholeNumber = 300
    largest_gradient: Positive = 5.0
    validation_share: ProperShare = 0.05


@dataclass(frozen=True, eq=False)
class JointlyTrained:
    """A network with several outputs.

    Parameters
    ----------
    params
        Weights.
    splits
        Split of every set.
    validation_mse
        Mean squared error on the held-out rows of each set, in squared standardised units.
    history
        Means of the errors over sets, at twenty steps.
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
    """Train a network with one output for each set.

    Parameters
    ----------
    start
        First weights, with one row of the output layer for each set.
    sets
        Standardised features (n, p) and gaps (n,) of each set.
    config, generator
        Settings and random numbers of the training.
    alternatives
        Other features (n, p) of the rows of each set, None for a set without. Held-out rows are
        held out in both; errors are those of the first features.

    Raises
    ------
    InputError
        If the number of outputs is not that of the sets, a set has fewer than 3 rows, or
        alternatives have other shapes.
    """
    params = {name: value.detach().clone().requires_grad_() for name, value in start.items()}
    n_outputs = params[f"bias.{max(map(layer_of, params))}"].shape[0]
    if n_outputs != len(sets):
        raise InputError(
            f"{len(sets)} source sets but a network with {n_outputs} outputs. "
            "Give one output for each."
        )
    _check_alternatives(sets, alternatives)
    splits = tuple(
        split_rows(y.shape[0], share=config.validation_share, generator=generator) for _, y in sets
    )
    sizes = [
        len(rows)
        for rows in torch.arange(max(config.batch_size, n_outputs)).tensor_split(n_outputs)
    ]
    batches = _batches(sets, alternatives, splits, sizes, generator=generator)
    optimiser = torch.optim.AdamW(
        params.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: _rate(i, config))
    output_of_row = torch.repeat_interleave(torch.arange(n_outputs), torch.tensor(sizes))
    output_of_row = output_of_row.to(sets[0][0].device)
    history: list[Epoch] = []
    recent = 0.0
    for i in range(config.steps):
        x, y = next(batches)
        optimiser.zero_grad()
        outputs = forward(params, x, dropout=config.dropout, generator=generator)
        predictions = outputs.reshape(-1, n_outputs).gather(1, output_of_row[:, None])[:, 0]
        loss = ((predictions - y) ** 2).mean()
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
    """Return the mean squared error of the output of every set on its held-out rows."""
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
    alternative_shapes = [
        shape if alternative is None else tuple(alternative.shape)
        for shape, alternative in zip(shapes, alternatives, strict=False)
    ]
    if alternatives and (alternative_shapes != shapes or len(alternatives) != len(sets)):
        raise InputError(
            f"source sets have features of shapes {shapes}, their alternatives "
            f"{alternative_shapes}. Give as many rows and features."
        )


def _batches(
    sets: Sequence[tuple[Tensor, Tensor]],
    alternatives: Sequence[Tensor | None],
    splits: Sequence[RowSplit],
    sizes: Sequence[int],
    *,
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x (b, p) and y (b,) endlessly, with a fixed number of rows of every set."""
    streams = [
        _rows(s.training, size, generator=generator) for s, size in zip(splits, sizes, strict=True)
    ]
    optional = alternatives or [None] * len(sets)
    while True:
        rows = [next(stream) for stream in streams]
        features = [
            _either(x, alternative, generator)
            for (x, _), alternative in zip(sets, optional, strict=True)
        ]
        x = torch.cat([values[r] for values, r in zip(features, rows, strict=True)])
        yield x, torch.cat([y[r] for (_, y), r in zip(sets, rows, strict=True)])


def _either(x: Tensor, alternative: Tensor | None, generator: torch.Generator) -> Tensor:
    """Return one of both at random; without an alternative no random number is drawn."""
    if alternative is None:
        return x
    return alternative if int(torch.randint(2, (), generator=generator)) else x


def _rows(rows: Tensor, size: int, *, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield batches of `size` rows endlessly; every row is used before any is used again."""
    remaining = rows[:0]
    while True:
        while len(remaining) < size:
            order = torch.randperm(len(rows), generator=generator)
            remaining = torch.cat([remaining, rows[order]])
        yield remaining[:size]
        remaining = remaining[size:]


def _rate(step: int, config: JointTrainingConfig) -> float:
    """Return the factor of the learning rate: linear warm-up, then half a cosine down to zero."""
    warm = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    return warm * 0.5 * (1.0 + math.cos(math.pi * step / config.steps))
