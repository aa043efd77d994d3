"""A chain of bandgap's sampler on the posterior of `python -m benchmarks posterior`."""

from collections.abc import Iterator

import numpy as np
import torch

from bandgap.foundation.machine import few_blas_threads, set_threads
from bandgap.inference.network.chain import Chain, Record
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.scales import ScalePrior
from benchmarks.posterior_problem import Floats, PosteriorProblem

BLOCK = 50  # Iterations.
ENDLESS = 10**9  # Draws: the parent process stops the chain.


class ProductChain:
    """A chain of bandgap's sampler, alone in its process with one torch thread."""

    def __init__(self, problem: PosteriorProblem, *, seed: int, warmup: int) -> None:
        set_threads(1)
        few_blas_threads(1)  # Until the process ends: the context is never left.
        self._net = problem.network()
        self._prior = problem.scale_prior()
        self._test = PredictingNetwork(problem)
        self._warmup = warmup
        seeds = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._generator, host = (torch.Generator().manual_seed(int(s) % 2**63) for s in seeds)
        config = SamplerConfig(warmup=warmup, draws=ENDLESS, coordinates="partially centred")
        self._records: Iterator[Record] = Chain(
            self._net, self._prior, config, 1, self._generator, host
        ).iterate()

    def prepare(self) -> None:
        """Do nothing: loops without a compiled copy in the cache are compiled in warm-up."""

    def warm_up(self) -> None:
        """Run warm-up."""
        for _ in range(self._warmup):
            next(self._records)

    def block(self) -> Floats:
        """Return the quantities of the next iterations (iteration, quantity)."""
        rows = [self._quantities(next(self._records)) for _ in range(BLOCK)]
        return np.stack(rows)

    def _quantities(self, record: Record) -> Floats:
        scales = self._prior.judged(record.state.numpy())
        f = self._test.predict(record, self._prior, generator=self._generator)
        return np.concatenate([*scales.values(), f.double().numpy()[0]])


class PredictingNetwork:
    """f at the test inputs; weights of the first layer outside the row space are drawn."""

    def __init__(self, problem: PosteriorProblem) -> None:
        test = problem.test_inputs()
        self._base, self._coordinates, self._outside = (
            torch.from_numpy(a).float() for a in (test.base, test.coordinates, test.outside)
        )
        self._theta_hat = [torch.from_numpy(layer) for layer in problem.theta_hat]

    def predict(
        self, record: Record, prior: ScalePrior, *, generator: torch.Generator
    ) -> torch.Tensor:
        """Return f, (chain, m)."""
        s = prior.scales(record.state).s.float()[:, :, None, None]
        chains, width = record.z[0].shape[:2]
        noise = torch.randn((chains, self._outside.shape[1], width), generator=generator)
        pre = self._base + s[:, 0] * (self._coordinates @ record.z[0].mT + self._outside @ noise)
        upper = [self._theta_hat[i] + s[:, i] * record.z[i] for i in range(1, len(record.z))]
        for weights in (*upper, record.output.float().unsqueeze(1)):
            h = torch.nn.functional.pad(torch.relu(pre), (0, 1), value=1.0)
            pre = h @ weights.mT
        return pre.squeeze(-1)
