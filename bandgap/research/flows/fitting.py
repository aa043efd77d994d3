"""Fit several flows to one set of rows, each with its own weights and rows to stop by."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.config import Count, NonNegative, Positive, Settings
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.base_measure import BaseMeasure, dirichlet_weights
from bandgap.networks.perceptron import Params
from bandgap.research.flows.masked_flow import (
    BatchMoments,
    FlowConfig,
    init_flows,
    refreshed_moments,
    training_pass,
    transform,
)
from bandgap.research.flows.nonparametric import (
    BasePosterior,
    base_posterior,
    log_density,
    weighted_loss,
)


@dataclass(frozen=True)
class FlowTraining(Settings):
    """Settings of the training.

    Parameters
    ----------
    learning_rate, weight_decay, largest_gradient
        Settings of Adam, and the bound of the norm of a flow's gradient.
    batch_size
        Atoms in a step. Sets of up to twice as many are taken as a whole.
    max_epochs, patience
        Epochs at most, and epochs without a gain of the rows to stop by after which a flow stops.
    redraw
        Draw weights and pseudo-observations again in every epoch (algorithm 3). Otherwise every
        flow keeps its own, as one draw of the bootstrap.
    bootstrap
        Whether the weights are random. Otherwise those of all rows are equal (maximum likelihood).
    """

    learning_rate: Positive = 5e-3
    weight_decay: NonNegative = 1e-6
    largest_gradient: Positive = 5.0
    batch_size: Count = 256
    max_epochs: Count = 200
    patience: Count = 15
    redraw: bool = False
    bootstrap: bool = True


@dataclass(frozen=True, eq=False)
class FittedFlows:
    """Flows with the moments of their normalisations and the posterior of their base's mean.

    `validation` (E,) are the mean log-densities of the rows that each flow was stopped by, and
    `n_epochs` is the number of epochs that were run.
    """

    config: FlowConfig
    params: Params
    moments: BatchMoments
    base: BasePosterior
    validation: Tensor
    n_epochs: int

    def log_density(self, x: Tensor) -> Tensor:
        """Return log p (E, n) of rows (n, D) or (E, n, D), averaged over the base's mean."""
        with torch.no_grad():
            u, log_det = transform(self.params, self.config, self.moments, x)
            return self.base.log_density(u, log_det)


def fit_flows(
    rows: Tensor,
    *,
    is_fitted: Tensor,
    is_stopping: Tensor,
    config: FlowConfig,
    base: BaseMeasure | None = None,
    training: FlowTraining | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> FittedFlows:
    """Fit E flows to rows by the nonparametric posterior.

    Parameters
    ----------
    rows
        Rows (n, D) in float64, or (E, n, D) where every flow has its own coordinates. Pseudo-rows
        of `base.rows` are in the coordinates of all flows.
    is_fitted, is_stopping
        Rows (E, n) that every flow is fitted to, and those by which its training is stopped.
    config
        Shape of the flows.
    base
        Base measure of the prior. Default: none, the weighted likelihood bootstrap.
    training
        Settings. Default: those of the product.
    seed
        Seed of the parameters, the weights, the pseudo-observations and the batches.
    progress
        Called after every epoch; may raise `Cancelled`.

    Raises
    ------
    InputError
        If shapes differ, rows are not finite, a row is fitted and stopped by at the same time, or a
        flow has fewer than two rows of either kind.
    """
    base = base or BaseMeasure()
    training = training or FlowTraining()
    _check_rows(rows, is_fitted, is_stopping, config)
    generator = torch.Generator().manual_seed(seed)
    params = init_flows(config, n_flows=len(is_fitted), generator=generator)
    atoms = _Atoms.draw(rows, is_fitted, base, training, generator)
    trainable = {name: value.requires_grad_(True) for name, value in params.items()}
    optimiser = torch.optim.Adam(
        list(trainable.values()), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    best = _Best(params, len(is_fitted), patience=training.patience)
    epoch = 0
    while epoch < training.max_epochs and not best.all_stopped:
        if training.redraw and epoch:
            atoms = _Atoms.draw(rows, is_fitted, base, training, generator)
        for batch in _batches(atoms.x.shape[1], training.batch_size, generator):
            _step(trainable, optimiser, config, atoms, batch, training.largest_gradient)
        epoch += 1
        validation = _validation(trainable, config, atoms, rows, is_fitted, is_stopping)
        best.keep(trainable, validation)
        progress(
            Update(
                "density of the known structures",
                epoch,
                training.max_epochs,
                values={"log-density of the rows to stop by": float(best.validation.mean())},
            )
        )
    moments = refreshed_moments(best.params, config, atoms.x, atoms.mixture)
    with torch.no_grad():
        u, _ = transform(best.params, config, moments, atoms.x)
    n = is_fitted.shape[1]
    posterior = base_posterior(u[:, :n], is_fitted, u[:, n:], alpha=base.alpha)
    return FittedFlows(config, best.params, moments, posterior, best.validation, epoch)


@dataclass(frozen=True, eq=False)
class _Atoms:
    """Rows and pseudo-observations (E, n + m, D), their drawn weights, and those of G."""

    x: Tensor
    weights: Tensor
    mixture: Tensor

    @classmethod
    def draw(
        cls,
        rows: Tensor,
        is_fitted: Tensor,
        base: BaseMeasure,
        training: FlowTraining,
        generator: torch.Generator,
    ) -> "_Atoms":
        n_flows = len(is_fitted)
        m = base.n_pseudo
        rows = rows.expand(n_flows, -1, -1)
        pseudo = [
            base.draw(of_flow[mask], generator=generator)
            for of_flow, mask in zip(rows, is_fitted, strict=True)
        ]
        x = torch.cat([rows, torch.stack(pseudo)], dim=1)
        is_atom = torch.cat([is_fitted, torch.ones(n_flows, m, dtype=torch.bool)], dim=1)
        n = rows.shape[1]
        size_of_atom = torch.ones(n + m, dtype=rows.dtype)
        size_of_atom[n:] = base.alpha / max(m, 1)
        mixture = is_atom * size_of_atom
        mixture = mixture / mixture.sum(1, keepdim=True)
        if not training.bootstrap:
            return cls(x, mixture, mixture)
        drawn = dirichlet_weights(n, m, alpha=base.alpha, n_draws=n_flows, generator=generator)
        weights = is_atom * drawn
        return cls(x, weights / weights.sum(1, keepdim=True), mixture)


class _Best:
    """The best parameters of every flow so far; a flow that has stopped is not replaced."""

    def __init__(self, params: Params, n_flows: int, *, patience: int) -> None:
        self.params = {name: value.detach().clone() for name, value in params.items()}
        self.validation = torch.full((n_flows,), -torch.inf, dtype=torch.float64)
        self._epochs_without_gain = torch.zeros(n_flows, dtype=torch.long)
        self._patience = patience

    @property
    def all_stopped(self) -> bool:
        return bool((self._epochs_without_gain >= self._patience).all())

    def keep(self, params: Params, validation: Tensor) -> None:
        is_better = (validation > self.validation) & (self._epochs_without_gain < self._patience)
        self._epochs_without_gain += 1
        self._epochs_without_gain[is_better] = 0
        self.validation[is_better] = validation[is_better]
        for name, value in params.items():
            self.params[name][is_better] = value.detach()[is_better]


def _batches(n: int, size: int, generator: torch.Generator) -> list[Tensor]:
    order = torch.randperm(n, generator=generator)
    return [order] if n <= 2 * size else list(order.chunk(-(-n // size)))


def _step(
    params: Params,
    optimiser: torch.optim.Optimizer,
    config: FlowConfig,
    atoms: _Atoms,
    batch: Tensor,
    largest_gradient: float,
) -> None:
    weights = atoms.weights[:, batch]
    weights = weights / weights.sum(1, keepdim=True)
    optimiser.zero_grad()
    u, log_det = training_pass(params, config, atoms.x[:, batch], weights)
    weighted_loss(u, log_det, weights).sum().backward()  # type: ignore[no-untyped-call]
    squares = [value.grad.flatten(1).square().sum(1) for value in params.values()]  # type: ignore[union-attr]
    norm = torch.stack(squares).sum(0).sqrt()
    factor = (largest_gradient / norm).clamp(max=1.0)
    for value in params.values():
        assert value.grad is not None
        value.grad *= factor.reshape(-1, *[1] * (value.ndim - 1))
    optimiser.step()


def _validation(
    params: Params,
    config: FlowConfig,
    atoms: _Atoms,
    rows: Tensor,
    is_fitted: Tensor,
    is_stopping: Tensor,
) -> Tensor:
    """Return the mean log-density (E,) of the rows to stop by, with mu the mean of the others."""
    moments = refreshed_moments(params, config, atoms.x, atoms.mixture)
    with torch.no_grad():
        u, log_det = transform(params, config, moments, rows)
        shares = is_fitted / is_fitted.sum(1, keepdim=True)
        mean = (shares[:, :, None] * u).sum(1)
        values = log_density(u, log_det, mean, None)
        return (values * is_stopping).sum(1) / is_stopping.sum(1)


def _check_rows(rows: Tensor, is_fitted: Tensor, is_stopping: Tensor, config: FlowConfig) -> None:
    n = is_fitted.shape[1]
    accepted = ((n, config.n_features), (len(is_fitted), n, config.n_features))
    if tuple(rows.shape) not in accepted or not torch.isfinite(rows).all():
        raise InputError(
            f"flow: rows of shape {tuple(rows.shape)}. Accepted: finite rows with "
            f"{config.n_features} columns, for all flows or for each."
        )
    if is_fitted.shape != is_stopping.shape or is_fitted.shape[1:] != (n,):
        raise InputError(
            f"flow: masks of shapes {tuple(is_fitted.shape)} and {tuple(is_stopping.shape)} for "
            f"{n} rows. Accepted: two masks (flows, {n})."
        )
    if (is_fitted & is_stopping).any():
        raise InputError("flow: a row is fitted and stopped by. Give every row one role.")
    if min(int(is_fitted.sum(1).min()), int(is_stopping.sum(1).min())) < 2:
        raise InputError("flow: each flow needs at least two rows to fit and two to stop by.")
