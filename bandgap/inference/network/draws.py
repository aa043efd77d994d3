"""What a run of the sampler leaves: kept draws, every iteration's scales and fitted values, and figures of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bandgap.inference import diagnostics
from bandgap.inference.network.whitened_network import Layers

MIN_DRAWS = 8  # of every chain, below which R-hat says nothing

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkDraws:
    """Kept draws of the scales, of z of every sampled layer and of the output layer's weights."""

    state: Tensor  # (chain, kept, width)
    z: Layers  # (chain, kept, out, in), as the network keeps them
    output: Tensor  # (chain, kept, q)


@dataclass(frozen=True, eq=False)
class SamplerInfo:
    """Every iteration after warm-up: scales, f at the training inputs, acceptance and divergences."""

    state: Floats  # (chain, draw, width)
    judged: Mapping[str, Floats]  # scales whose convergence is judged, (chain, draw), by name
    fitted: NDArray[np.float32]  # (chain, draw, n)
    accept: Floats  # (chain, draw)
    divergent: NDArray[np.bool_]  # (chain, draw)
    energy: Floats  # (chain, draw), of every path
    step: Floats  # (group,), radians
    n_steps: int  # gradients per iteration, median

    def figures(self) -> dict[str, float]:
        """Return R-hat, effective draws, divergences and acceptance; convergence is judged on f and the scales."""
        scales = _stack(self.judged)
        rhat = {
            name: float(value)
            for name, value in zip(self.judged, diagnostics.rhat(scales), strict=True)
        }
        ess = {
            name: float(value)
            for name, value in zip(self.judged, diagnostics.ess_bulk(scales), strict=True)
        }
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
                "ebfmi_min": float(diagnostics.ebfmi(self.energy).min()),
                "step_rad": float(self.step.mean()),
                "gradients_per_iteration": float(self.n_steps),
            }
        )


def running_figures(judged: Mapping[str, Floats]) -> dict[str, float]:
    """Return the largest R-hat and the fewest effective draws of quantities (chain, draw) by name.

    Nothing while there are too few draws.
    """
    values = _stack(judged)
    if values.shape[1] < MIN_DRAWS:
        return {}
    return {
        "rhat": float(diagnostics.rhat(values).max()),
        "ess_bulk": float(diagnostics.ess_bulk(values).min()),
    }


def _stack(scales: Mapping[str, Floats]) -> Floats:
    return np.stack(list(scales.values()), -1)
