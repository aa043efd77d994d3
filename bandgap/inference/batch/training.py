"""Training of many networks from one start as one batched computation, on the CPU or on CUDA.

Samples (of a bootstrap, of an ensemble, of folds of a cross-validation) differ in weights omega and
labels t of the rows, in the start of the output layer, in the order of mini-batches and in the
strength of a penalty.

The first layer is trained in the row space of its inputs (`rows.py`). This is exact for SGD with or
without momentum, for clipping by the norm and for isotropic Gaussian penalties or noise. For Adam
it is a different optimiser of the same quality (`benchmarks`).

A sample is a function of the rows, the settings, the seed and its number. It does not depend on the
number of samples or on how they are divided into chunks. Each sample has its own stream for the
order of rows; `order="shared"` uses that of sample 0 for all. Predictions of a sample repeat to
1e-9 in float64 and to 1e-3 eV in float32 for any number of samples.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.config import Count, NonNegative, Positive, Settings, ShareBelowOne
from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import set_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.batch.bootstrap import StreamName, stream
from bandgap.inference.batch.kernels import (
    KernelName,
    Layers,
    Stack,
    kernel_of,
    make_stack,
    outputs,
)
from bandgap.inference.batch.penalties import Penalty
from bandgap.inference.batch.rows import Coordinates, FirstLayer, Samples
from bandgap.inference.batch.updates import Descent, Hamiltonian, Mover, Noise, annealed, clip
from bandgap.inference.divergence import DivergedError

NOISY_SHARE = 0.25  # last share of a cycle of SGHMC, in which noise is added
LARGEST_MISS = 3.0  # of a network's own rows, in standard deviations of their labels or in 1

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StackTraining(Settings):
    """Training of every network of a stack; there is no early stopping.

    The paper is Lee and others (2024), with its settings of the small network of images.

    Parameters
    ----------
    optimiser
        "adam" or "sgd". The paper has "sgd"; "adam" because SGD diverges on these features at the
        paper's learning rates from 0.03, and Adam's steps do not depend on the scale.
    learning_rate
        Start of a cosine schedule that ends at 0. The paper has 0.1, 0.03 or 0.01; 0.0003 because
        the optimiser is Adam, for which the paper has 0.0001 with a larger network.
    momentum
        Momentum of SGD and of SGHMC.
    epochs
        Passes over the rows. The paper has 10; 40 because a few hundred rows make few steps a pass.
    batch_size
        Rows of a mini-batch. The paper has 80; 32 because a few hundred rows make few batches.
    clip
        Largest norm of a sample's gradient; 0 for no clipping.
    coordinates
        Coordinates of the first layer (`rows.py`).
    order
        Whether each sample has its own order of rows, or all share one.
    kernel
        Kernel of the gradients (`kernels.py`); "auto" is "bmm".
    precision
        Precision of weights.
    chunk, max_memory_GB
        On a CPU at most `chunk` samples that fit into this memory are trained together. A GPU uses
        half of its free memory.
    """

    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: Positive = 3e-4
    momentum: ShareBelowOne = 0.9
    epochs: Count = 40
    batch_size: Count = 32
    clip: NonNegative = 5.0
    coordinates: Coordinates = "row_space"
    order: Literal["own", "shared"] = "own"
    kernel: Literal["auto", "vmap", "bmm", "wide"] = "auto"
    precision: Literal["float32", "float64"] = "float32"
    chunk: Count = 20  # larger chunks gain less than a tenth with bmm on one CPU thread
    max_memory_GB: Positive = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel == "wide" and self.order == "own":
            raise ConfigError(
                "training: kernel 'wide' multiplies the same rows for all samples, order is 'own'. "
                "Set order=shared, or kernel=bmm."
            )

    @property
    def chosen_kernel(self) -> KernelName:
        """The kernel; "auto" resolved."""
        return "bmm" if self.kernel == "auto" else self.kernel

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.precision == "float32" else torch.float64


@dataclass(frozen=True)
class Cycles:
    """Cosine cycles of SGHMC, each of which ends with noise and gives one draw."""

    number: int
    temperature: float


def train_stack(
    layers: Sequence[FirstLayer],
    between: Sequence[Tensor],
    samples: Samples,
    *,
    config: StackTraining,
    seed: int,
    device: torch.device,
    penalty: Penalty | None = None,
    cycles: Cycles | None = None,
    phase: str = "training",
    progress: Progress = no_progress,
) -> list[Layers]:
    """Train all samples and return their weights on the CPU at the end of every cycle.

    Without `cycles` there is one end. `between` are the shared starts (in + 1, out) of the layers
    between first and last. Weights are C (S, r, width) and layers (S, in + 1, out). C has rows of
    zeros where the rank of a fold is below the largest. Raises DivergedError if training diverges.
    """
    order = np.argsort(samples.layer, kind="stable")
    size = chunk_size(layers, between, config=config, device=device)
    chunks = [order[i : i + size] for i in range(0, order.size, size)]
    epochs_of_chunk = config.epochs * (cycles.number if cycles else 1)
    tasks = (
        (layers, between, samples.of(chunk), config, seed, device, chunk_penalty, cycles)
        for chunk in chunks
        for chunk_penalty in [penalty.of(torch.from_numpy(chunk).to(device)) if penalty else None]
    )
    ends: list[list[Layers]] = []
    if engine_in_use().remote and device.type == "cpu":
        with contextlib.closing(mapped(_chunk_elsewhere, tasks)) as trained:
            for number, snapshots in enumerate(trained, start=1):
                progress(Update(phase, number * epochs_of_chunk, len(chunks) * epochs_of_chunk))
                ends.append(snapshots)
    else:
        for number, task in enumerate(tasks):
            snapshots = []
            for done, weights in enumerate(_train_chunk(*task), start=1):
                n_done = number * epochs_of_chunk + done
                progress(Update(phase, n_done, len(chunks) * epochs_of_chunk))
                snapshots += [] if weights is None else [weights]
            ends.append(snapshots)
    back = torch.from_numpy(np.argsort(order, kind="stable"))
    return [
        [
            torch.cat(parts)[back]
            for parts in zip(*(snapshots[cycle] for snapshots in ends), strict=True)
        ]
        for cycle in range(len(ends[0]))
    ]


def _train_chunk(
    layers: Sequence[FirstLayer],
    between: Sequence[Tensor],
    samples: Samples,
    config: StackTraining,
    seed: int,
    device: torch.device,
    penalty: Penalty | None,
    cycles: Cycles | None,
) -> Iterator[Layers | None]:
    """Train samples together and yield after every epoch.

    Yields their weights on the CPU at the end of a cycle, None otherwise.
    """
    stack = _stack(layers, between, samples, config=config, device=device)
    for finished in _Run(stack, samples, layers, config, seed, penalty, cycles).epochs():
        weights = [weight.cpu().clone() for weight in stack.weights] if finished else None
        if weights is not None:
            _refuse_divergence(stack, config)
        yield weights


def _chunk_elsewhere(*task: Any) -> list[Layers]:
    set_threads()
    return [weights for weights in _train_chunk(*task) if weights is not None]


def chunk_size(
    layers: Sequence[FirstLayer],
    between: Sequence[Tensor],
    *,
    config: StackTraining,
    device: torch.device,
) -> int:
    """Return how many samples are trained together: as memory allows, on a CPU at most `chunk`."""
    item = 4 if config.precision == "float32" else 8
    bytes_per_sample = item * _numbers_per_sample(layers, between, config)
    if device.type == "cuda":
        return max(1, int(0.5 * torch.cuda.mem_get_info(device)[0] / bytes_per_sample))
    return max(1, min(config.chunk, int(config.max_memory_GB * 1e9 / bytes_per_sample)))


def _refuse_divergence(stack: Stack, config: StackTraining) -> None:
    """Raise DivergedError where a network misses its own rows by three standard deviations."""
    n_diverged = 0
    for sample, fold in enumerate(stack.fold):
        rows = stack.omega[sample] > 0
        labels = stack.labels[sample, rows]
        layers = [layer[sample] for layer in stack.weights]
        f = outputs(stack.inputs[fold, rows], stack.base[fold, rows], layers)
        limit = LARGEST_MISS**2 * labels.var(correction=0).clamp_min(1.0)
        n_diverged += not bool(((f - labels) ** 2).mean() <= limit)
    if n_diverged:
        raise DivergedError(
            f"{n_diverged} of {len(stack.fold)} networks that were trained together "
            f"diverged at a learning rate of {config.learning_rate}. Take a smaller learning_rate."
        )


def _numbers_per_sample(
    layers: Sequence[FirstLayer], between: Sequence[Tensor], config: StackTraining
) -> int:
    """Return how many numbers a sample keeps in memory.

    These are weights, gradients, two moments, two temporaries, and a mini-batch.
    """
    rank = max(layer.inputs.shape[1] for layer in layers)
    width = layers[0].base.shape[1]
    last = between[-1].shape[1] if between else width
    parameters = rank * width + sum(layer.numel() for layer in between) + last + 1
    activations = width + last + sum(layer.shape[1] for layer in between)
    return 6 * parameters + config.batch_size * (rank + width + 3 * activations)


def _stack(
    layers: Sequence[FirstLayer],
    between: Sequence[Tensor],
    samples: Samples,
    *,
    config: StackTraining,
    device: torch.device,
) -> Stack:
    rank = max(layer.inputs.shape[1] for layer in layers)

    def place(array: Tensor | Floats) -> Tensor:
        tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        return tensor.to(device=device, dtype=config.dtype)

    padded = [
        torch.nn.functional.pad(layer.inputs, (0, rank - layer.inputs.shape[1])) for layer in layers
    ]
    count = samples.layer.size
    return make_stack(
        place(torch.stack(padded)),
        place(torch.stack([layer.base for layer in layers])),
        fold=torch.from_numpy(samples.layer).to(device),
        omega=place(samples.omega),
        labels=place(samples.labels),
        upper=[
            *[place(layer).expand(count, -1, -1) for layer in between],
            place(samples.heads)[:, :, None],
        ],
        kernel=config.chosen_kernel,
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """Training of one chunk: its stack, samples and settings."""

    stack: Stack
    samples: Samples
    layers: Sequence[FirstLayer]
    config: StackTraining
    seed: int
    penalty: Penalty | None
    cycles: Cycles | None

    def epochs(self) -> Iterator[bool]:
        """Train epoch by epoch; yield whether the epoch ends a cycle."""
        config = self.config
        kernel = kernel_of(config.chosen_kernel)
        mover = self._mover()
        n = self.stack.inputs.shape[1]
        parts = math.ceil(n / config.batch_size)
        steps = config.epochs * parts
        generators = self._orders()
        for _ in range(self.cycles.number if self.cycles else 1):
            for epoch in range(config.epochs):
                for part, rows in enumerate(
                    torch.tensor_split(self._permuted(generators, n), parts, dim=1)
                ):
                    share = (epoch * parts + part) / steps
                    kernel(self.stack, rows)
                    if self.penalty is not None:
                        self.penalty.add_gradient(self.stack)
                    if config.clip > 0:
                        clip(self.stack, config.clip)
                    mover.step(
                        annealed(config.learning_rate, share=share), noisy=share >= 1 - NOISY_SHARE
                    )
                yield epoch + 1 == config.epochs

    def _mover(self) -> Mover:
        config = self.config
        samples = self.samples
        if self.cycles is None:
            return Descent(self.stack, adam=config.optimiser == "adam", momentum=config.momentum)
        ranks = [self.layers[k].inputs.shape[1] for k in samples.layer]
        temperatures = self.cycles.temperature * samples.variances / samples.n_rows
        noise = Noise(temperatures.tolist(), self._streams("momentum"), ranks)
        return Hamiltonian(self.stack, momentum=config.momentum, noise=noise)

    def _orders(self) -> list[np.random.Generator]:
        if self.config.order == "shared":
            return [stream(self.seed, 0, "order")]
        return self._streams("order")

    def _streams(self, name: StreamName) -> list[np.random.Generator]:
        pairs = zip(self.samples.numbers.tolist(), self.samples.folds.tolist(), strict=True)
        return [stream(self.seed, m, name, fold=None if fold < 0 else fold) for m, fold in pairs]

    def _permuted(self, generators: Sequence[np.random.Generator], n: int) -> Tensor:
        """Return the order of the rows in one epoch, (S, n), on the stack's device."""
        orders = np.stack([generator.permutation(n) for generator in generators])
        return (
            torch.from_numpy(orders).to(self.stack.base.device).expand(self.samples.layer.size, n)
        )
