r"""Probabilistic backpropagation on the demo, from the source and from a random start.

All methods have the same training and test crystals. A network from a random start has the widths
of the source, scales of the target's training rows, one prior precision and one pass.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import coverage, crps_gaussian, rmse
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.standardise import fit_standardiser
from bandgap.predictions.mixtures import mixture_quantiles, mixture_sd
from bandgap.research.assumed_density.belief import Floats, fresh_belief
from bandgap.research.assumed_density.passes import take_in
from bandgap.research.assumed_density.prior_sites import refine_prior
from bandgap.research.posteriors.factorised_network import FactorisedNetworkPosterior
from bandgap.research.shared.moment_transfer import CLIP
from bandgap.sources.model import SourceModel
from bandgap.sources.stored import load_source
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared.method import Fitting

OURS = "pbp"
SCRATCH = "PBP from a random start"
SIDES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    OURS: ("pbp", {}),
    "pbp, 6 passes": ("pbp", {"passes": 6}),
    "pbp, 6 passes, rows counted again (adf)": ("pbp", {"passes": 6, "likelihood": "adf"}),
    "sspbp": ("pbp", {"zero_probabilities": True}),
    "fine_tune": ("fine_tune", {}),
    "last_layer_ridge": ("last_layer_ridge", {}),
}


@dataclass(frozen=True)
class PbpDemo:
    """Numbers of training and test crystals, and of splits."""

    n: int = 300
    n_test: int = 700
    splits: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 10 or min(self.n_test, self.splits) < 1:
            raise ConfigError(
                f"benchmark pbp: {self.n} rows, {self.n_test} for testing, {self.splits} splits. "
                "Accepted: at least 10 rows, whole numbers from 1."
            )


def run_benchmark(
    config: PbpDemo, *, cache: DescriptorCache | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Measure on the crystals and the source of the demo; return plain values of each split."""
    source = load_source(demo_source_folder())
    crystals = load_demo("crystals")
    table = learnable(
        crystals.records,
        crystals.gaps_eV,
        descriptor=source.descriptor,
        cache=cache,
        n_jobs=1,
        progress=progress,
    )
    sides: dict[str, list[dict[str, float]]] = {}
    for number in range(config.splits):
        for name, figures in compare_sides(
            source, table, config, seed=config.seed + number
        ).items():
            sides.setdefault(name, []).append(figures)
        progress(Update("splits", number + 1, config.splits))
    weights = sum(layer.numel() for layer in source.params.values())
    return {
        "n": config.n,
        "n_test": config.n_test,
        "splits": config.splits,
        "weights": weights,
        "sides": sides,
    }


def compare_sides(
    source: SourceModel, table: Table, config: PbpDemo, *, seed: int
) -> dict[str, dict[str, float]]:
    """Return figures of each method on a split.

    RMSE and CRPS in eV, coverage of 90 % intervals, share of the weights in the predictive
    variance, and seconds.
    """
    split = permuted_split(table.ids, n_test=config.n_test, n_train=config.n, seed=seed)
    train = table.rows(split.train)
    test = table.rows(split.test)
    data = TargetData(train.features, train.gaps_eV)

    def method(name: str, settings: dict[str, Any]) -> Callable[[], Any]:
        fitted_method = METHODS[name]
        return lambda: fitted_method.fit(
            source, data, fitted_method.configure(settings), Fitting(seed, device="cpu")
        )

    fits = {name: method(*which) for name, which in SIDES.items()}
    fits[SCRATCH] = lambda: from_scratch(data, widths=source.network.hidden, seed=seed)
    figures_of_sides = {}
    for name, fit in fits.items():
        clock = time.perf_counter()
        started = time.process_time()
        posterior = fit()
        spent = {
            "seconds": time.perf_counter() - clock,
            "cpu_seconds": time.process_time() - started,
        }
        figures_of_sides[name] = _figures(posterior, test.features, test.gaps_eV) | spent
    return figures_of_sides


def from_scratch(
    data: TargetData, *, widths: tuple[int, ...], seed: int
) -> FactorisedNetworkPosterior:
    """Fit a network from a random start, without a source."""
    scale = fit_standardiser(data.features, data.gaps_eV)
    x = np.clip(scale.features(data.features), -CLIP, CLIP)
    y = scale.gaps(data.gaps_eV)
    rng = np.random.default_rng(seed)
    belief, _ = take_in(fresh_belief((x.shape[1], *widths, 1), rng=rng), x, y, rng=rng)
    belief = refine_prior(belief)
    return FactorisedNetworkPosterior(scale, belief.weights, belief.noise, CLIP)


def _figures(
    posterior: Any, features: NDArray[np.floating[Any]], gaps_eV: Floats
) -> dict[str, float]:
    draws = posterior.predictive_draws(features)
    mean = draws.flat_means_eV.mean(0)
    low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.05, 0.95])
    sd = mixture_sd(draws.centres_eV, draws.sds_eV)
    return {
        "rmse_eV": rmse(gaps_eV, mean),
        "crps_eV": crps_gaussian(gaps_eV, mean, sd=sd),
        "coverage": coverage(gaps_eV, low, upper=high),
        "weights_share": float(np.mean(draws.flat_means_eV.var(0) / sd**2)),
    }
