"""Tables 2.1 to 2.3 of Abba (2023): transfer between simulated regressions by bandgap's methods.

x_1 ~ N(0, 1), x_j | x_(j-1) ~ N(x_(j-1) / 2, 3/4), y ~ N(C mu(x), sigma^2) with

    mu(x) = cos(slope sum_(j <= k*) x_j / k*)

over k* = k_s inputs in the source and k_s + k in the target. The printed argument of the cosine is
damaged; in table 2.1 it is read as 2 sum x / k*, and C is such that C mu has the variance 4 on the
target. Every data set has its own source. Errors and coverage are those of the mean function.

As printed, the design of table 2.3 has almost no signal: the mean of 900 inputs has a standard
deviation of 0.06, so that cos of twice the mean has a variance of 9e-5, where the noise has 0.1.
The stated ratio of signal to noise is 3. Here the argument is multiplied so that the ratio is 3 at
k = 0, and C is 1 as printed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bandgap.networks.perceptron import NetworkConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources.held_back import predicted_eV
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.one_set import train_fresh, with_extras
from bandgap.transfer import TargetData
from benchmarks.last_layer_design import UNUSED_DESCRIPTOR
from benchmarks.studies.fits import AnyMethod, fitted
from benchmarks.studies.published_tables import cell, numbers_in
from benchmarks.studies.study import (
    Floats,
    Key,
    Part,
    Statement,
    Values,
    below,
    mean_part,
    readings,
    settings_of,
    study_of,
)

ERROR = "mean squared error"
COVERAGE = "coverage of 95 % intervals"
WIDTH = "width of 95 % intervals"
MINUTES = "minutes of CPU time"
ROOT = "root of the mean squared error"
OVER_C = "width divided by C"
RATE_ONE = "lam = 1"
QUANTITIES = {ERROR: ("a", "mse"), COVERAGE: ("b", "coverage"), WIDTH: ("b", "width")}
PE = "BTL-PCP-PE"
VI = "BTL-PCP-VI"
CONSTANT = "mean of the labels"
AS_PUBLISHED = {"standardise": "source", "gap_scale": "source"}
METHODS = ("TL1", "TL2", "BNN", PE, VI, "BTL-VI")
HIDDEN = (24, 16, 12, 8)
SIGMA = 0.32  # of table 2.3


@dataclass(frozen=True, kw_only=True)
class Design:
    """Inputs, active ones of the source, added ones of the target, noise, slope, and C."""

    inputs: int = 30
    active: int = 15
    added: int = 0
    sigma: float = 1.0
    slope: float = 2.0
    amplitude: float = 1.0

    def inputs_of(self, n: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Draw inputs (n, inputs)."""
        x = rng.standard_normal((n, self.inputs))
        for j in range(1, self.inputs):
            x[:, j] = 0.5 * x[:, j - 1] + math.sqrt(0.75) * x[:, j]
        return x.astype(np.float32)

    def mean(self, x: np.ndarray[Any, np.dtype[np.float32]], *, target: bool) -> Floats:
        """Return C mu(x) (n,) of the source or the target."""
        active = self.active + self.added * target
        argument = self.slope * x[:, :active].mean(1, dtype=np.float64)
        return np.asarray(self.amplitude * np.cos(argument))


def variance_of_mean(active: int) -> float:
    """Return the variance of the mean of the first inputs."""
    return (3.0 * active - 4.0 * (1.0 - 0.5**active)) / active**2


def small_design(k: int) -> Design:
    """Return a design of table 2.1, where C mu has the variance 4 on the target."""
    spread = 4.0 * variance_of_mean(15 + k)
    return Design(added=k, amplitude=2.0 / math.sqrt(0.5 * (1.0 - math.exp(-spread)) ** 2))


def large_design(k: int, *, inputs: int, active: int) -> Design:
    """Return a design of table 2.3, where the ratio of signal to noise is 3 at k = 0."""
    spread = -math.log(1.0 - math.sqrt(6.0 * SIGMA**2))
    slope = math.sqrt(spread / variance_of_mean(active))
    return Design(inputs=inputs, active=active, added=k, sigma=SIGMA, slope=slope)


def simulated_source(
    design: Design, n: int, training: Mapping[str, Any], *, epochs: int, seed: int
) -> SourceModel:
    """Train a source on n simulated rows, with a variational fit of some epochs."""
    config = SourceConfig(
        HIDDEN, TrainingConfig(**training), variational=(VariationalConfig(epochs=epochs),)
    )
    rng = np.random.default_rng([seed, 1, design.added])
    x = design.inputs_of(n, rng)
    y = design.mean(x, target=False) + design.sigma * rng.standard_normal(n)
    network = NetworkConfig(design.inputs, HIDDEN)
    standardiser, trained = train_fresh(
        x, y, network=network, config=config.training, seed=seed, device="cpu"
    )
    error = math.sqrt(trained.validation_mse) * standardiser.y_sd_eV
    card = SourceCard((), n, (), validation_rmse_eV=error, seed=seed)
    source = SourceModel(trained.params, network, standardiser, UNUSED_DESCRIPTOR, card, config)
    return with_extras(source, x, y, device="cpu")


def transferred(
    design: Design,
    source: SourceModel,
    methods: Mapping[tuple[str, str], AnyMethod],
    *,
    n: int,
    n_test: int,
    seed: int,
) -> Values:
    """Return the values of all methods (reading and name) for one target of n rows."""
    rng = np.random.default_rng([seed, 2, n, design.added])
    x, x_test = (design.inputs_of(size, rng) for size in (n, n_test))
    data = TargetData(x, design.mean(x, target=True) + design.sigma * rng.standard_normal(n))
    truth = design.mean(x_test, target=True)
    setting = f"k = {design.added}, n = {n}"
    values: Values = {}
    for (reading, name), method in methods.items():
        posterior, seconds = fitted(source, data, method, seed=seed)
        draws = posterior.predictive_draws(x_test).flat_means_eV
        error = ((draws.mean(0) - truth) ** 2).mean()
        values[Key(setting, name, ERROR, reading)] = error
        values[Key(setting, name, ERROR, readings(reading, ROOT))] = np.sqrt(error)
        values[Key(setting, name, MINUTES, reading)] = np.array(seconds / 60)
        if len(draws) > 1:
            low, high = np.quantile(draws, [0.025, 0.975], axis=0)
            inside = ((low <= truth) & (truth <= high)).mean()
            width = (high - low).mean()
            values[Key(setting, name, COVERAGE, reading)] = inside
            values[Key(setting, name, WIDTH, reading)] = width
            of_c = readings(reading, OVER_C)
            values[Key(setting, name, WIDTH, of_c)] = width / design.amplitude
    for name, constant in (
        ("source unchanged", predicted_eV(source, x_test)),
        (CONSTANT, data.gaps_eV.mean()),
    ):
        values[Key(setting, name, ERROR)] = ((constant - truth) ** 2).mean()
    return values


def methods_of(
    training: Mapping[str, Any], sampler: Mapping[str, Any]
) -> dict[tuple[str, str], AnyMethod]:
    """Return the methods of table 2.1, by reading of the text and name."""
    point = AS_PUBLISHED | {"sampler": sampler}
    return {
        ("", "TL1"): ("target_only", {"training": training}),
        ("", "TL2"): (
            "two_stage",
            AS_PUBLISHED | {"output_layer": training, "all_layers": training},
        ),
        ("", "BNN"): ("bnn", {"sampler": sampler}),
        ("", PE): ("btl_pcp_pe", point | {"lam": "corr"}),
        (RATE_ONE, PE): ("btl_pcp_pe", point | {"lam": 1.0}),
        ("", VI): ("btl_pcp_vi", point),
    }


def small(
    seed: int,
    *,
    added: Sequence[int] = (0, 5, 10, 15),
    sizes: Sequence[int] = (30, 50, 70),
    epochs: int,
    training: Mapping[str, Any],
    sampler: Mapping[str, Any],
) -> Values:
    """Fit all methods to one data set of every setting of table 2.1."""
    values: Values = {}
    for k in added:
        design = small_design(k)
        source = simulated_source(design, 1000, training, epochs=epochs, seed=seed)
        for n in sizes:
            values |= transferred(
                design, source, methods_of(training, sampler), n=n, n_test=200, seed=seed
            )
    return values


def large(
    seed: int,
    *,
    inputs: int,
    active: int,
    n_source: int,
    n: int,
    epochs: int,
    epochs_of_btl_vi: int = 100,
    training: Mapping[str, Any],
    sampler: Mapping[str, Any],
) -> Values:
    """Fit all methods to one data set of both values of k of table 2.3."""
    methods = methods_of(training, sampler)
    del methods[RATE_ONE, PE]
    methods["", "BTL-VI"] = ("btl_vi", AS_PUBLISHED | {"training": {"epochs": epochs_of_btl_vi}})
    values: Values = {}
    for k in (0, 100):
        design = large_design(k, inputs=inputs, active=active)
        source = simulated_source(design, n_source, training, epochs=epochs, seed=seed)
        values |= transferred(design, source, methods, n=n, n_test=2000, seed=seed)
    return values


def printed(number: str, key: Key) -> Mapping[str, Any]:
    """Return the printed number of table 2.`number`."""
    column = key.method.replace("-", "_")
    if key.method not in METHODS or key.quantity not in QUANTITIES:
        in_table = number == "3" and key.method in METHODS[:-1] and key.setting.startswith("k = 0")
        return cell("table_2_2", "minutes", method=column) if in_table else {}
    part, suffix = QUANTITIES[key.quantity]
    table = f"table_2_{number}{part}"
    name = f"{column}_{suffix}"
    error = f"{column}_se" if part == "a" else f"{name}_se"
    has_error = (number == "1" and suffix == "coverage") or part == "a"
    return cell(table, name, error if has_error else "", **numbers_in(key.setting))


def statements_of_small(values: Values) -> list[Statement]:
    """Return what table and text say of the methods' order, in each setting that they name."""

    def less(first: str, *rivals: str, among: tuple[str, ...] = ("",)) -> list[Part]:
        settings = [text for text in settings_of(values, ERROR) if text.startswith(among)]
        return below(values, first, rivals, ERROR, settings)

    alike, unlike = ("k = 0,", "k = 5,"), ("k = 10,", "k = 15,")
    transfers = ("TL2", PE, VI)
    return [
        Statement(
            "For similar source and target (k = 0 and 5) all transfers work well.",
            [part for one in transfers for part in less(one, "TL1", CONSTANT, among=alike)],
            "read as: lower errors than the same network on the target alone, TL1, and a constant",
        ),
        Statement(
            "For a high discrepancy (k = 10 and 15) transfers do not improve the performance.",
            less("BNN", *transfers, among=unlike),
            "read as: no lower errors than BNN, the better of the fits to the target alone",
        ),
        Statement("BTL-PCP-PE has lower errors than TL1 and TL2.", less(PE, "TL1", "TL2")),
        Statement("BTL-PCP-PE has lower errors than BTL-PCP-VI.", less(PE, VI)),
        Statement(
            "BNN has the lowest errors at k = 15.",
            less("BNN", "TL1", "TL2", PE, VI, among=("k = 15,",)),
        ),
    ]


def statements_of_large(values: Values) -> list[Statement]:
    """Return the statements on errors and times."""
    rivals = [method for method in METHODS if method != PE]
    settings = settings_of(values, ERROR)
    minutes = {
        method: np.sum([values[Key(setting, method, MINUTES)] for setting in settings], 0)
        for method in METHODS
    }
    ratio = (minutes["BNN"] + minutes[PE]) / (minutes["TL1"] + minutes["TL2"])
    return [
        Statement("BTL-PCP-PE has the lowest error.", below(values, PE, rivals, ERROR, settings)),
        Statement(
            "The Bayesian methods take about six times as long as the classical ones.",
            [mean_part("BNN and BTL-PCP-PE over TL1 and TL2", ratio, low=3.0, high=12.0)],
            "chains of the length below; read as between 3 and 12",
        ),
    ]


STUDIES = (
    study_of("table-2.1", small, printed=partial(printed, "1"), statements=statements_of_small),
    study_of("table-2.3", large, printed=partial(printed, "3"), statements=statements_of_large),
)
