"""Training of an ensemble from the source: one stack, one choice of a setting, one noise.

The networks of all values of a setting (alpha, a penalty) and of all folds are one stack with
common random numbers, so that values are compared with everything else equal. The rows that the
folds hold out (`folds`) choose the value for the networks on all rows, and the noise of their
mixture.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update
from bandgap.inference.batch.kernels import Layers
from bandgap.inference.batch.rows import Samples
from bandgap.inference.batch.training import train_stack
from bandgap.posterior import Diagnostics, Floats, NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.folds import (
    Start,
    between_weights,
    check_noise,
    choose,
    first_weights,
    fit_sigma,
    held_out_masks,
    start_of,
)
from bandgap.transfer.shared.method import Fitting, TargetData
from bandgap.transfer.shared.stack_plan import NO_SETTING, Members, Plan, Recipe


@dataclass(frozen=True, eq=False)
class StackedFit:
    """Trained networks of the chosen value; `weights` are those at each cycle's end, on the CPU."""

    start: Start
    weights: list[Layers]
    value: float
    sigma_eV: float
    figures: dict[str, float]


def fit_stacked(
    source: SourceModel, data: TargetData, recipe: Recipe, plan: Plan, fitting: Fitting
) -> StackedFit:
    """Choose the setting and the noise by held-out rows, and train the plan's samples.

    They are trained on all rows after cross-validation, else on the rows that are not held out.
    """
    fitting.progress(Update("preparing the transfer"))
    work = _Work(source, data, recipe, plan, fitting.seed, fitting.device, fitting.progress)
    folds = work.folds()
    all_rows = folds[0] if len(folds) == 1 else work.start(np.ones_like(folds[0].trained))
    y = np.concatenate([data.gaps_eV[~fold.trained] for fold in folds])
    values = plan.setting.values
    name = plan.setting.name
    value = values[0]
    figures = {}
    inner = [_Job(fold, v, range(plan.choice_samples)) for v in values for fold in folds]
    final = _Job(all_rows, value, range(plan.samples))
    if len(values) > 1:
        trained = work.train(inner, phase=f"choosing {name}")
        means = np.stack([_left_out_eV(inner, trained, v, averaged=plan.averaged) for v in values])
        index, sigmas, scores = choose(y, means, default=plan.setting.default_index)
        value = values[index]
        sigma = float(sigmas[index])
        final = _Job(all_rows, value, range(plan.samples))
        weights = work.train([final], phase="training")[0]
        figures = {f"nll_{name}_{v:g}": float(s) for v, s in zip(values, scores, strict=True)}
    elif len(folds) > 1:
        weights, *trained = work.train([final, *inner], phase="training")
        sigma = fit_sigma(y, _left_out_eV(inner, trained, value, averaged=plan.averaged))
    else:
        weights = work.train([final], phase="training")[0]
    if len(folds) == 1:
        sigma = fit_sigma(y, _left_out_eV([final], [weights], value, averaged=plan.averaged))
    return StackedFit(
        all_rows,
        weights,
        value,
        sigma,
        figures | ({name: value} if plan.setting is not NO_SETTING else {}),
    )


def train_more(
    source: SourceModel,
    data: TargetData,
    recipe: Recipe,
    plan: Plan,
    *,
    numbers: range,
    value: float,
    sigma_eV: float,
    seed: int,
    device: str,
    progress: Progress,
) -> StackedFit:
    """Train the samples of these numbers, with a known value and noise."""
    work = _Work(source, data, recipe, plan, seed, device, progress)
    folds = work.folds()
    all_rows = folds[0] if len(folds) == 1 else work.start(np.ones_like(folds[0].trained))
    return StackedFit(
        all_rows,
        work.train([_Job(all_rows, value, numbers)], phase="training")[0],
        value,
        sigma_eV,
        {},
    )


def stacked_posterior(
    source: SourceModel,
    fit: StackedFit,
    *,
    seed: int,
    scale_1: Floats | None = None,
    warnings: tuple[str, ...] = (),
) -> NetworkPosterior:
    """Return the networks as draws of equal weight.

    They are one chain; with cycles there is one chain for each sample and one draw for each cycle.
    `scale_1` (chain, draw) is the spread of the first layer outside the row space, by default zero.
    Raises InputError where the noise is too large (`check_noise`).
    """
    cycles = len(fit.weights)
    start = fit.start
    check_noise(fit.sigma_eV, start)
    rank = start.layer.inputs.shape[1]

    def draws(layer: int) -> Tensor:
        # (S, cycle, in, out)
        stacked = torch.stack([weights[layer] for weights in fit.weights], 1).float()
        ordered = stacked if cycles > 1 else stacked.transpose(0, 1)
        return ordered.transpose(2, 3).contiguous()

    theta_hat = first_weights(source)
    basis = (
        torch.eye(theta_hat.shape[1]) if start.layer.basis is None else start.layer.basis.float()
    )
    coordinates = draws(0)[..., :rank].contiguous()
    shape = tuple(coordinates.shape[:2])
    return NetworkPosterior(
        standardiser=start.standardiser,
        theta_hat_1=theta_hat,
        basis=basis,
        coordinates=coordinates,
        scale_1=torch.zeros(shape) if scale_1 is None else torch.from_numpy(scale_1).float(),
        upper=tuple(draws(layer) for layer in range(1, len(fit.weights[0]))),
        sigma=np.full(shape, fit.sigma_eV / start.standardiser.y_sd_eV),
        seed=seed,
        diagnostics=Diagnostics(fit.figures, warnings),
    )


def mean_weights(weights: Layers) -> Layers:
    """Return the mean of the networks' weights, (1, in, out) for each layer."""
    return [layer.mean(0, keepdim=True) for layer in weights]


@dataclass(frozen=True, eq=False)
class _Job:
    """Networks of one value on one start."""

    start: Start
    value: float
    numbers: range


def _left_out_eV(
    jobs: Sequence[_Job], trained: Sequence[list[Layers]], value: float, *, averaged: bool
) -> Floats:
    """Return predictions (network, n) in eV for all held-out rows, fold by fold, at one value."""
    parts = []
    for job, cycles in zip(jobs, trained, strict=True):
        if job.value == value:
            used = [mean_weights(weights) if averaged else weights for weights in cycles]
            parts.append(np.concatenate([job.start.held_out_eV(weights) for weights in used]))
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class _Work:
    """What all stacks of one fit have in common."""

    source: SourceModel
    data: TargetData
    recipe: Recipe
    plan: Plan
    seed: int
    device: str
    progress: Progress

    def folds(self) -> list[Start]:
        """Return the start of every fold, or of the single hold-out."""
        masks = held_out_masks(self.data.gaps_eV.size, rule=self.plan.held_out, seed=self.seed)
        return [self.start(mask, fold=k if len(masks) > 1 else -1) for k, mask in enumerate(masks)]

    def start(self, trained: NDArray[np.bool_], *, fold: int = -1) -> Start:
        """Fit scales, basis and probe to the rows marked (n,)."""
        plan = self.plan
        return start_of(
            self.source,
            self.data,
            trained=trained,
            fold=fold,
            **plan.scales,
            coordinates=plan.training.coordinates,
        )

    def train(self, jobs: Sequence[_Job], *, phase: str) -> list[list[Layers]]:
        """Train the networks of all jobs as one stack; return their weights by job and cycle."""
        starts = list({id(job.start): job.start for job in jobs}.values())
        between = between_weights(self.source)
        torch_device = choose_device(self.device)
        rows = [(job, number) for job in jobs for number in job.numbers]
        samples = self._samples(rows, starts)
        dtype = self.plan.training.dtype
        members = Members(
            values=torch.tensor([job.value for job, _ in rows], device=torch_device, dtype=dtype),
            n_rows=torch.from_numpy(samples.n_rows).to(torch_device),
            between=[layer.to(torch_device, dtype) for layer in between],
        )
        ends = train_stack(
            [start.layer for start in starts],
            between,
            samples,
            config=self.plan.training,
            seed=self.seed,
            device=torch_device,
            penalty=self.recipe.penalty(members),
            cycles=self.plan.cycles,
            phase=phase,
            progress=self.progress,
        )
        cuts = np.cumsum([len(job.numbers) for job in jobs])[:-1].tolist()
        split = [[torch.tensor_split(layer, cuts) for layer in weights] for weights in ends]
        return [[[layer[k] for layer in weights] for weights in split] for k in range(len(jobs))]

    def _samples(self, rows: Sequence[tuple[_Job, int]], starts: Sequence[Start]) -> Samples:
        """Arrange the samples over all n rows; held-out rows have weight zero."""
        n, q = starts[0].hidden.shape
        omega = np.zeros((len(rows), n))
        labels = np.zeros((len(rows), n))
        heads = np.empty((len(rows), q + 1))
        variances = np.empty(len(rows))
        for i, (job, number) in enumerate(rows):
            start = job.start
            sample = self.recipe.sample(start, number, value=job.value, seed=self.seed)
            omega[i, start.trained] = sample.omega * (n / start.n_trained)
            labels[i, start.trained] = sample.labels
            heads[i] = sample.head
            variances[i] = sample.variance
        return Samples(
            layer=np.array([starts.index(job.start) for job, _ in rows]),
            omega=omega,
            labels=labels,
            heads=heads,
            numbers=np.array([number for _, number in rows]),
            folds=np.array([job.start.fold for job, _ in rows]),
            n_rows=np.array([job.start.n_trained for job, _ in rows]),
            variances=variances,
        )
