"""Methods of the registry fitted to random rows of a table, and tested on others."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.datasets.demo import (
    DemoSet,
    demo_source_folder,
    inorganic_source_folder,
    load_demo,
    load_inorganic,
)
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import Table, learnable
from bandgap.evaluation.metrics import coverage, nll_mixture
from bandgap.foundation.config import from_dict
from bandgap.posterior import Floats, Posterior
from bandgap.sources.model import SourceConfig, SourceModel
from bandgap.sources.one_set import train_source
from bandgap.sources.recalibration import source_gaps_eV, standardiser_for
from bandgap.sources.stored import load_source
from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.method import Fitting
from benchmarks.studies.cpu_time import cpu_seconds
from benchmarks.studies.study import Key, Values

AnyMethod = tuple[str, Mapping[str, Any]]  # name in the registry, settings

MSE = "mean squared error (eV^2)"
RMSE = "root mean squared error (eV)"
NLL = "negative log density"
WIDTH = "mean width of the intervals (eV)"
SECONDS = "CPU time of a fit (s)"
_SHORT = {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 10, "max_steps": 6}}
_FEW_EPOCHS = {"training": {"max_epochs": 3}}
_FEW_SAMPLES = {"samples": 3, "choice_samples": 1, "alphas": [1.0], "training": {"epochs": 2}}
_FEW_MEMBERS = {"members": 2, "fold_members": 1, "training": {"epochs": 2}}
BRIEF: dict[str, dict[str, Any]] = {
    "last_layer_pcp": {"draws": 50},
    "last_layer_horseshoe": {"sampler": {"chains": 2, "warmup": 50, "draws": 50, "keep": 50}},
    "mc_dropout": {"passes": 10, **_FEW_EPOCHS},
    "nptl": _FEW_SAMPLES,
    "nptl_soup": _FEW_SAMPLES,
    "l2sp": {"strengths": [0.01], **_FEW_MEMBERS},
    "ensemble": _FEW_MEMBERS,
    "ptyl": {"gammas": [100.0], **_FEW_MEMBERS},
    "sghmc": {"chains": 2, "cycles": 2, "epochs": 2},
    "fine_tune": _FEW_EPOCHS,
    "freeze": _FEW_EPOCHS,
    "target_only": _FEW_EPOCHS,
    "btl_bnn": _SHORT,
    "btl_pcp_pe": _SHORT,
}


@dataclass(frozen=True, eq=False)
class Data:
    """A source, and features and gaps of the target."""

    source: SourceModel
    table: Table


@cache
def demo_data(n: int, hidden: tuple[int, ...] = ()) -> Data:
    """Return the source of the demo and its first n crystals.

    `hidden` are the widths of another source, which is trained on the demo's molecules.
    """
    data = _data(demo_source_folder(), load_demo("crystals"), n)
    if not hidden:
        return data
    molecules = _data(demo_source_folder(), load_demo("molecules"), None).table
    source = train_source(
        molecules.features,
        molecules.gaps_eV,
        descriptor=data.source.descriptor,
        config=SourceConfig(hidden),
        data=(),
        elements=(),
        seed=0,
        device="cpu",
    )
    return Data(source, data.table)


@cache
def inorganic_data() -> Data:
    """Return the source of the inorganic demo and its target."""
    return _data(inorganic_source_folder(), load_inorganic("target"), None)


def _data(folder: Path, target: DemoSet, n: int | None) -> Data:
    source = load_source(folder)
    records = target.records[:n]
    gaps = target.gaps_eV[:n]
    return Data(source, learnable(records, gaps, descriptor=source.descriptor, n_jobs=1))


def fitted(
    source: SourceModel, data: TargetData, method: AnyMethod, *, seed: int, brief: bool = False
) -> tuple[Posterior, float]:
    """Return the posterior of a method, and the CPU time; `brief` is for smoke scale."""
    name, settings = method
    entry = get_method(name)
    config: Any = from_dict(entry.config, (BRIEF.get(name, {}) if brief else {}) | dict(settings))
    started = cpu_seconds()
    posterior = entry.fit(source, data, config, Fitting(seed, device="cpu"))
    return posterior, cpu_seconds() - started


def split_of(data: Data, *, n: int, n_test: int, seed: int) -> tuple[TargetData, Table]:
    """Return n random training rows, and test rows."""
    split = permuted_split(data.table.ids, n_test=n_test, n_train=n, seed=seed)
    train = data.table.rows(split.train)
    return TargetData(train.features, train.gaps_eV), data.table.rows(split.test)


def compared(
    seed: int,
    *,
    data: Data,
    methods: Mapping[str, AnyMethod],
    sizes: tuple[int, ...],
    n_test: int,
    level: float,
    brief: bool = False,
) -> Values:
    """Return figures of all methods, fitted to one split of every size."""
    values: Values = {}
    for n in sizes:
        train, test = split_of(data, n=n, n_test=n_test, seed=seed)
        for name, method in methods.items():
            posterior, seconds = fitted(data.source, train, method, seed=seed, brief=brief)
            figures = figures_of(posterior, test.features, test.gaps_eV, level=level)
            figures[SECONDS] = seconds
            values |= {Key(f"n = {n}", name, what): np.array(one) for what, one in figures.items()}
    return values


def line_of_source(source: SourceModel, train: TargetData, features: Any) -> Floats:
    """Return the source's gaps (n,), mapped to the target's by a straight line alone."""
    standardiser = standardiser_for(source, train.features, train.gaps_eV)
    return source_gaps_eV(source, standardiser, features)


def figures_of(
    posterior: Posterior, features: Any, gaps_eV: Floats, *, level: float
) -> dict[str, float]:
    """Return figures of the predictions of rows."""
    draws = posterior.predictive_draws(features)
    errors = draws.flat_means_eV.mean(0) - gaps_eV
    low, high = draws.gaps.interval(level)
    mse = float((errors**2).mean())
    return {
        MSE: mse,
        RMSE: math.sqrt(mse),
        NLL: nll_mixture(gaps_eV, draws.centres_eV, sds=draws.wide_sds_eV),
        coverage_of(level): coverage(gaps_eV, low, upper=high),
        WIDTH: float((high - low).mean()),
    }


def coverage_of(level: float) -> str:
    """Return the name of the coverage of intervals."""
    return f"coverage of {100 * level:.0f} % intervals"
