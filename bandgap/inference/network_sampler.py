"""Draws from the joint posterior of a network's weights and scales: warm-up, adaptation, several chains side by side.

One iteration moves whitened weights and scales along one path (joint_hmc), then the scales alone (scale_moves), both
with the output layer integrated out; the output layer is drawn exactly when a state is recorded. Chains run in groups
of a fixed size, each group as one batch in a thread with one torch thread, so that results do not depend on how many
cores there are.
"""

import threading
from dataclasses import dataclass

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from torch import Tensor

from bandgap.devices import cores
from bandgap.errors import Cancelled
from bandgap.inference import diagnostics
from bandgap.inference.network_chain import Chain, SamplerConfig
from bandgap.inference.scales import ScalePrior
from bandgap.inference.whitened_network import Layers, WhitenedNetwork
from bandgap.progress import Progress, Update

CHAINS_PER_GROUP = 2
REPORT_EVERY = 5  # iterations between two updates of the progress


@dataclass(frozen=True, eq=False)
class NetworkDraws:
    """Kept draws of the scales, of z of every sampled layer and of the output layer's weights."""

    state: Tensor  # (chain, kept, 2 + L)
    z: Layers  # (chain, kept, out, in)
    output: Tensor  # (chain, kept, q)


@dataclass(frozen=True, eq=False)
class SamplerInfo:
    """Every iteration after warm-up: scales, f at the training inputs, acceptance and divergences."""

    state: NDArray[np.float64]  # (chain, draw, 2 + L)
    fitted: NDArray[np.float32]  # (chain, draw, n)
    accept: NDArray[np.float64]  # (chain, draw)
    divergent: NDArray[np.bool_]  # (chain, draw)
    step: NDArray[np.float64]  # (group,), radians
    n_steps: int  # gradients per iteration, median

    def figures(self) -> dict[str, float]:
        """Return R-hat, effective draws, divergences and acceptance; convergence is judged on f, tau, sigma and c."""
        c = np.exp(self.state[..., 2:]) / np.exp(self.state[..., 2:]).sum(-1, keepdims=True)
        log_tau = self.state[..., 0] + 2 * self.state[..., 1]
        scales = np.concatenate([log_tau[..., None], self.state[..., 1:2], c], -1)
        scale_rhat, scale_ess = diagnostics.rhat(scales), diagnostics.ess_bulk(scales)
        fit_rhat, fit_ess = diagnostics.rhat(self.fitted), diagnostics.ess_bulk(self.fitted)
        named = {"tau": 0, "sigma": 1} | {f"c{i + 1}": 2 + i for i in range(c.shape[-1])}
        return (
            {f"rhat_{name}": float(scale_rhat[i]) for name, i in named.items()}
            | {f"ess_{name}": float(scale_ess[i]) for name, i in named.items()}
            | {
                "rhat_max": float(max(scale_rhat.max(), fit_rhat.max())),
                "rhat_fit_max": float(fit_rhat.max()),
                "ess_min": float(min(scale_ess.min(), fit_ess.min())),
                "ess_fit_median": float(np.median(fit_ess)),
                "divergences": float(self.divergent.sum()),
                "accept_mean": float(self.accept.mean()),
                "step_rad": float(self.step.mean()),
                "gradients_per_iteration": float(self.n_steps),
            }
        )


def sample_network(
    net: WhitenedNetwork,
    prior: ScalePrior,
    *,
    config: SamplerConfig,
    seed: int,
    progress: Progress,
) -> tuple[NetworkDraws, SamplerInfo]:
    """Sample weights and scales; raises Cancelled when `progress` does."""
    sizes = [min(CHAINS_PER_GROUP, config.chains - i) for i in range(0, config.chains, CHAINS_PER_GROUP)]
    shared = _SharedProgress(progress, total=len(sizes) * (config.warmup + config.draws))
    workers = 1 if net.y.is_cuda else min(cores(), len(sizes))
    groups = Parallel(n_jobs=workers, prefer="threads")(
        delayed(_run_group)(net, prior, config, size, np.random.SeedSequence([seed, i]), shared)
        for i, size in enumerate(sizes)
    )
    results = [group for group in groups if group is not None]
    if shared.cancelled is not None:
        raise shared.cancelled
    draws = NetworkDraws(
        torch.cat([r.draws.state for r in results]),
        [torch.cat([r.draws.z[i] for r in results]) for i in range(len(net.shapes))],
        torch.cat([r.draws.output for r in results]),
    )
    info = SamplerInfo(
        state=np.concatenate([r.state for r in results]),
        fitted=np.concatenate([r.fitted for r in results]),
        accept=np.concatenate([r.accept for r in results]),
        divergent=np.concatenate([r.divergent for r in results]),
        step=np.array([r.step for r in results]),
        n_steps=int(np.median([r.n_steps for r in results])),
    )
    return draws, info


class _SharedProgress:
    """Counts the iterations of all groups and turns a cancellation in one thread into the end of all of them."""

    def __init__(self, progress: Progress, *, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        self._lock = threading.Lock()
        self.cancelled: Cancelled | None = None

    def advance(self, count: int, *, phase: str, values: dict[str, float]) -> bool:
        """Report `count` further iterations; return whether the group must end."""
        with self._lock:
            self._done += count
            if self.cancelled is None:
                try:
                    self._progress(Update(phase, self._done, self._total, values=values))
                except Cancelled as cancelled:
                    self.cancelled = cancelled
            return self.cancelled is not None


@dataclass(frozen=True, eq=False)
class _Group:
    draws: NetworkDraws
    state: NDArray[np.float64]
    fitted: NDArray[np.float32]
    accept: NDArray[np.float64]
    divergent: NDArray[np.bool_]
    step: float
    n_steps: int


def _run_group(
    net: WhitenedNetwork,
    prior: ScalePrior,
    config: SamplerConfig,
    chains: int,
    seed: np.random.SeedSequence,
    shared: _SharedProgress,
) -> _Group | None:
    device = net.inputs.device
    generator = torch.Generator(device=device).manual_seed(int(seed.generate_state(1, np.uint64)[0]) % 2**63)
    host = torch.Generator().manual_seed(int(seed.generate_state(2, np.uint64)[1]) % 2**63)
    chain = Chain(net, prior, config, chains, generator, host)
    keep = config.keep // config.chains
    kept_at = set(np.linspace(0, config.draws - 1, num=min(keep, config.draws)).round().astype(int).tolist())
    states, fitted, accepts, divergents, kept = [], [], [], [], []
    for i, record in enumerate(chain.iterate()):
        warm = i < config.warmup
        if not warm:
            states.append(record.state.cpu())
            fitted.append(record.fitted.float().cpu())
            accepts.append(record.accept.cpu())
            divergents.append(record.divergent.cpu())
            if i - config.warmup in kept_at:
                kept.append((record.state.cpu(), [q.cpu() for q in record.z], record.output.cpu()))
        if (i + 1) % REPORT_EVERY == 0 or i + 1 == config.warmup + config.draws:
            values = {"acceptance": float(record.accept.mean()), "step_rad": chain.step}
            count = REPORT_EVERY if (i + 1) % REPORT_EVERY == 0 else (i + 1) % REPORT_EVERY
            if shared.advance(count, phase="warm-up" if warm else "sampling", values=values):
                return None
    draws = NetworkDraws(
        torch.stack([k[0] for k in kept], 1),
        [torch.stack([k[1][layer] for k in kept], 1) for layer in range(len(net.shapes))],
        torch.stack([k[2] for k in kept], 1),
    )
    return _Group(
        draws,
        torch.stack(states, 1).numpy(),
        torch.stack(fitted, 1).numpy(),
        torch.stack(accepts, 1).numpy(),
        torch.stack(divergents, 1).numpy(),
        chain.step,
        chain.n_steps,
    )
