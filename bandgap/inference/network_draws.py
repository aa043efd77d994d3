"""What a run of the sampler leaves: kept draws, every iteration's scales and fitted values, and figures of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.inference import diagnostics
from bandgap.inference.whitened_network import Layers

MIN_DRAWS = 8  # of every chain, below which R-hat says nothing

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkDraws:
    """Kept draws of the scales, of z of every sampled layer and of the output layer's weights."""

    state: Tensor  # (chain, kept, 2 + L)
    z: Layers  # (chain, kept, out, in)
    output: Tensor  # (chain, kept, q)


@dataclass(frozen=True, eq=False)
class SamplerInfo:
    """Every iteration after warm-up: scales, f at the training inputs, acceptance and divergences."""

    state: Floats  # (chain, draw, 2 + L)
    fitted: NDArray[np.float32]  # (chain, draw, n)
    accept: Floats  # (chain, draw)
    divergent: NDArray[np.bool_]  # (chain, draw)
    step: Floats  # (group,), radians
    n_steps: int  # gradients per iteration, median

    def figures(self) -> dict[str, float]:
        """Return R-hat, effective draws, divergences and acceptance; convergence is judged on f, tau, sigma and c."""
        scales = judged_scales(self.state)
        rhat = {name: float(value) for name, value in zip(scales, diagnostics.rhat(_stack(scales)), strict=True)}
        ess = {name: float(value) for name, value in zip(scales, diagnostics.ess_bulk(_stack(scales)), strict=True)}
        fit_rhat, fit_ess = diagnostics.rhat(self.fitted), diagnostics.ess_bulk(self.fitted)
        return (
            {f"rhat_{name}": value for name, value in rhat.items()}
            | {f"ess_{name}": value for name, value in ess.items()}
            | {
                "rhat_max": max(*rhat.values(), float(fit_rhat.max())),
                "rhat_fit_max": float(fit_rhat.max()),
                "ess_min": min(*ess.values(), float(fit_ess.min())),
                "ess_fit_median": float(np.median(fit_ess)),
                "divergences": float(self.divergent.sum()),
                "accept_mean": float(self.accept.mean()),
                "step_rad": float(self.step.mean()),
                "gradients_per_iteration": float(self.n_steps),
            }
        )


def judged_scales(state: Floats) -> Mapping[str, Floats]:
    """Return log tau, log sigma and every c_l of states (chain, draw, 2 + L), each (chain, draw), by name."""
    c = torch.softmax(torch.from_numpy(np.ascontiguousarray(state[..., 2:])), -1).numpy()
    scales = {"tau": state[..., 0] + 2 * state[..., 1], "sigma": state[..., 1]}
    return scales | {f"c{i + 1}": c[..., i] for i in range(c.shape[-1])}


def running_rhat(state: Floats) -> float | None:
    """Return the largest R-hat of tau, sigma and c in states (chain, draw, 2 + L), None while there are too few."""
    if state.shape[1] < MIN_DRAWS:
        return None
    return float(diagnostics.rhat(_stack(judged_scales(state))).max())


def _stack(scales: Mapping[str, Floats]) -> Floats:
    return np.stack(list(scales.values()), -1)
