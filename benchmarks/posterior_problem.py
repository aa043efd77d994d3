r"""The posterior of `python -m benchmarks posterior`: BTL-PCP-PE on crystals, as plain arrays.

Both samplers get these arrays and return draws of the same quantities, which do not depend on the
parametrisation: log tau, log sigma, each c_l, and f at test inputs, on the standardised scales.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import LabelledSet, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import Progress
from bandgap.inference.network.pcp_scales import PointEstimateScales, point_estimate_scales
from bandgap.inference.network.whitened_network import RowSpace, WhitenedNetwork, row_space, whiten
from bandgap.networks.perceptron import layer_gradient_norms, layers_of
from bandgap.sources.stored import load_source
from bandgap.transfer.btl_pcp_pe import BtlPcpPeConfig
from bandgap.transfer.shared.method import TargetData
from bandgap.transfer.shared.sampled_network import centred, rows_for_source

Floats = NDArray[np.float64]
# Smallest variance of test inputs outside the row space, relative to the largest; less is rounding.
SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class PosteriorProblem:
    """Standardised rows x (n, p), y (n,), test inputs (m, p), source weights, prior settings."""

    theta_hat: tuple[NDArray[np.float32], ...]  # (out, in + 1) per layer, the bias last
    x: Floats
    y: Floats
    x_test: Floats
    alpha: Floats  # squared gradient norms at theta_hat, (n, L)
    noise_b: float
    lam: float = 1.0
    c0: float = 1.0

    @property
    def n_layers(self) -> int:
        return len(self.theta_hat)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the quantities in order: tau, sigma, c1 ... cL, and f at each test input."""
        layers = tuple(f"c{i + 1}" for i in range(self.n_layers))
        return ("tau", "sigma", *layers, *(f"f{i + 1}" for i in range(self.x_test.shape[0])))

    def scale_prior(self) -> PointEstimateScales:
        """Return bandgap's prior of the scales."""
        return point_estimate_scales(
            torch.from_numpy(self.alpha), lam=self.lam, noise_b=self.noise_b, c0=self.c0
        )

    def network(self) -> WhitenedNetwork:
        """Return bandgap's network for sampling."""
        layers = [torch.from_numpy(layer) for layer in self.theta_hat]
        x = torch.from_numpy(self.x)
        y = torch.from_numpy(self.y)
        return whiten(layers, x, y, device=torch.device("cpu"), dtype=torch.float32)

    def test_inputs(self) -> "TestInputs":
        """Return the test inputs in the coordinates of the training rows."""
        rows = row_space(torch.from_numpy(with_one(self.x)))
        return test_inputs(rows, with_one(self.x_test), self.theta_hat[0])


@dataclass(frozen=True, eq=False)
class TestInputs:
    """Test inputs (m, p + 1) in the coordinates of the training rows' row space.

    `outside` (m, k) is a factor of the inner products of the parts outside the row space. Its
    product with normal draws (k, width) has the distribution of the contribution of the weights
    there, which have their prior.
    """

    base: Floats  # (m, width), first pre-activation at theta_hat
    coordinates: Floats  # (m, r)
    outside: Floats


def test_inputs(rows: RowSpace, wide: Floats, theta_hat_1: NDArray[np.float32]) -> TestInputs:
    """Return test inputs `wide` (m, p + 1) in the coordinates of `rows`."""
    basis = rows.basis.numpy()
    coordinates = wide @ basis
    outside = wide - coordinates @ basis.T
    values, vectors = np.linalg.eigh(outside @ outside.T)
    keep = values > SMALLEST_VARIANCE * float((wide**2).sum(1).max())
    return TestInputs(
        wide @ theta_hat_1.astype(np.float64).T,
        coordinates,
        vectors[:, keep] * np.sqrt(values[keep]),
    )


def with_one(x: Floats) -> Floats:
    """Return x (n, p) with a column of ones (n, p + 1)."""
    return np.concatenate([x, np.ones((x.shape[0], 1))], 1)


def problem_of(
    crystals: LabelledSet,
    folder: Path,
    *,
    n: int,
    n_test: int,
    seed: int,
    cache: DescriptorCache | None,
    progress: Progress,
) -> PosteriorProblem:
    """Return the problem of `n` of the crystals with the source in `folder`.

    BTL-PCP-PE has its default settings.
    """
    source = load_source(folder)
    table = learnable(
        crystals.records,
        crystals.gaps_eV,
        descriptor=source.descriptor,
        cache=cache,
        n_jobs=1,
        progress=progress,
    )
    split = permuted_split(table.ids, n_test=n_test, n_train=n, seed=seed)
    train = table.rows(split.train)
    test = table.rows(split.test)
    config = BtlPcpPeConfig()
    assert config.lam != "corr"
    source = centred(source, config.centre)
    data = TargetData(train.features, train.gaps_eV)
    rows = rows_for_source(source, data, statistics=config.standardise, gap_scale=config.gap_scale)
    return PosteriorProblem(
        tuple(layer.float().numpy() for layer in layers_of(source.params)),
        rows.x.numpy(),
        rows.y.numpy(),
        rows.standardiser.features(test.features),
        layer_gradient_norms(source.params, rows.x).numpy(),
        rows.noise_b(config.noise_share),
        config.lam,
        config.c0,
    )
