"""Results of a run of the sampler: kept draws, and scales, fits and figures of all draws."""

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
    """Kept draws of the scales, of z of every sampled layer and of the output layer's weights.

    Parameters
    ----------
    state : (chain, draw, width)
    z : list of (chain, draw, out, in), as `WhitenedNetwork.stored` returns them
    output : (chain, draw, q)
    """

    state: Tensor
    z: Layers
    output: Tensor


@dataclass(frozen=True, eq=False)
class SamplerInfo:
    """Every iteration after warm-up.

    Parameters
    ----------
    state : (chain, draw, width), of the scales
    judged : (chain, draw) by name, the quantities of the scales whose convergence is judged
    fitted : (chain, draw, n), f at the training inputs
    accept, divergent, energy : (chain, draw), of every path
    step : (group,), in radians
    n_steps : gradients per iteration, median
    """

    state: Floats
    judged: Mapping[str, Floats]
    fitted: NDArray[np.float32]
    accept: Floats
    divergent: NDArray[np.bool_]
    energy: Floats
    step: Floats
    n_steps: int

    def figures(self) -> dict[str, float]:
        """Return R-hat, effective draws, divergences and acceptance, by name.

        Convergence is judged on f and the scales.
        """
        scales = _stack(self.judged)
        rhats = [float(value) for value in diagnostics.rhat(scales)]
        effective = [float(value) for value in diagnostics.ess_bulk(scales)]
        fit_rhat = diagnostics.rhat(self.fitted)
        fit_effective = diagnostics.ess_bulk(self.fitted)
        return (
            {f"rhat_{name}": value for name, value in zip(self.judged, rhats, strict=True)}
            | {f"ess_{name}": value for name, value in zip(self.judged, effective, strict=True)}
            | {
                "rhat_max": max(*rhats, float(fit_rhat.max())),
                "rhat_fit_max": float(fit_rhat.max()),
                "ess_min": min(*effective, float(fit_effective.min())),
                "ess_fit_median": float(np.median(fit_effective)),
                "divergences": float(self.divergent.sum()),
                "accept_mean": float(self.accept.mean()),
                "ebfmi_min": float(diagnostics.ebfmi(self.energy).min()),
                "step_rad": float(self.step.mean()),
                "gradients_per_iteration": float(self.n_steps),
            }
        )


def running_figures(judged: Mapping[str, Floats]) -> dict[str, float]:
    """Return the largest R-hat and the fewest effective draws of quantities (chain, draw) by name.

    Empty while there are too few draws.
    """
    values = _stack(judged)
    if values.shape[1] < MIN_DRAWS:
        return {}
    return {
        "rhat": float(diagnostics.rhat(values).max()),
        "ess_bulk": float(diagnostics.ess_bulk(values).min()),
    }


def _stack(quantities: Mapping[str, Floats]) -> Floats:
    return np.stack(list(quantities.values()), -1)
