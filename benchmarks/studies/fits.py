"""Methods of the registry fitted to random rows of a table, and tested on others."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.demo import (
    demo_source_folder,
    inorganic_source_folder,
    load_demo,
    load_inorganic,
)
from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors import DescriptorConfig, config_for
from bandgap.evaluation.metrics import coverage, nll_mixture
from bandgap.foundation.config import from_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import no_progress
from bandgap.inference.divergence import DivergedError
from bandgap.networks.graph_config import GraphConfig
from bandgap.posterior import Floats, Posterior
from bandgap.sources.graph_training import body_of_source
from bandgap.sources.model import SourceConfig, SourceModel
from bandgap.sources.no_source import labelled_elements
from bandgap.sources.one_set import train_source
from bandgap.sources.recalibration import source_gaps_eV, standardiser_for
from bandgap.sources.stored import load_source
from bandgap.structures import StructureRecord, read_paths
from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.method import Fitting
from benchmarks.crystals import LABEL, SETS, labelled_of
from benchmarks.oe62 import MOLECULES
from benchmarks.studies.cpu_time import cpu_seconds
from benchmarks.studies.study import Key, Values
from benchmarks.studies.uci_networks import data_folder

Labelled = tuple[Sequence[StructureRecord], NDArray[np.floating[Any]]]
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
_TWO_CHAINS = {"sampler": {"chains": 2}}  # of four by default
USUAL: dict[str, dict[str, Any]] = {"btl_bnn": _TWO_CHAINS, "btl_pcp_pe": _TWO_CHAINS}


@dataclass(frozen=True, eq=False)
class Data:
    """A source, and features and gaps of the target."""

    source: SourceModel
    table: Table


def data_of(crystals: int | str, hidden: Sequence[int] = (), **source: Any) -> Data:
    """Return so many crystals of the demo, or the set of this name, with a source.

    With options of `trained_demo` the source of the demo is another one.
    """
    if hidden:
        source["hidden"] = tuple(hidden)
    if isinstance(crystals, str):
        return named_data(crystals, **source)
    return trained_demo(crystals, **source) if source else demo_data(crystals)


@cache
def demo_data(n: int) -> Data:
    """Return the source of the demo and its first n crystals."""
    return _data(load_source(demo_source_folder()), _demo(n, "crystals"))


@cache
def trained_demo(
    n: int,
    *,
    hidden: tuple[int, ...],
    network: str = "perceptron",
    n_molecules: int | None = None,
) -> Data:
    """Return the demo's first n crystals, and a source trained on its first molecules, or all.

    The source has hidden layers of these widths: a perceptron on the demo's descriptor, or with
    "megnet" one on a graph network.
    """
    labelled = _demo(n_molecules, "molecules")
    config = SourceConfig(hidden)
    descriptor = load_source(demo_source_folder()).descriptor
    if network == "megnet":
        graph = GraphConfig(tuple(labelled_elements(*labelled)))
        trained = body_of_source(*labelled, graph, config=config, seed=0, device="cpu")
        descriptor = DescriptorConfig(graph=trained.body)
    return _data(_trained(labelled, descriptor, config), _demo(n, "crystals"))


@cache
def named_data(name: str) -> Data:
    """Return the inorganic demo, or a set of `SETS` and a source of GW gaps of molecules of OE62.

    The descriptor of the latter is MBTR with the elements of both. Raises InputError without the
    test data.
    """
    if name == "inorganic":
        demo = load_inorganic("target")
        return _data(load_source(inorganic_source_folder()), (demo.records, demo.gaps_eV))
    folder = data_folder()
    crystals = labelled_of(SETS[name], folder, no_progress)
    molecules = read_paths([folder / MOLECULES])
    labelled = molecules, labels_from_info(molecules, LABEL, unit="eV")
    target = crystals.records, crystals.gaps_eV
    elements = {*labelled_elements(*labelled), *labelled_elements(*target)}
    descriptor = config_for(species=sorted(elements))
    return _data(_trained(labelled, descriptor, SourceConfig()), target)


def _demo(n: int | None, part: Literal["crystals", "molecules"]) -> Labelled:
    demo = load_demo(part)
    return demo.records[:n], demo.gaps_eV[:n]


def _trained(labelled: Labelled, descriptor: DescriptorConfig, config: SourceConfig) -> SourceModel:
    table = learnable(*labelled, descriptor=descriptor, n_jobs=1)
    return train_source(
        table.features,
        table.gaps_eV,
        descriptor=descriptor,
        config=config,
        data=(),
        elements=(),
        seed=0,
        device="cpu",
    )


def _data(source: SourceModel, target: Labelled) -> Data:
    return Data(source, learnable(*target, descriptor=source.descriptor, n_jobs=1))


def fitted(
    source: SourceModel, data: TargetData, method: AnyMethod, *, seed: int, brief: bool = False
) -> tuple[Posterior, float]:
    """Return the posterior of a method, and the CPU time; `brief` is for smoke scale.

    Settings that the method does not name are those of `BRIEF` or `USUAL`, then the defaults.
    """
    name, settings = method
    entry = get_method(name)
    usual = (BRIEF if brief else USUAL).get(name, {})
    config: Any = from_dict(entry.config, usual | dict(settings))
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
    methods: Mapping[str, AnyMethod],
    sizes: tuple[int, ...],
    n_test: int,
    level: float = 0.9,
    brief: bool = False,
    **target: Any,
) -> Values:
    """Return figures of all methods, fitted to one split of every size of a target (`data_of`)."""
    data = data_of(**target)
    values: Values = {}
    for n in sizes:
        train, test = split_of(data, n=n, n_test=n_test, seed=seed)
        for name, method in methods.items():
            figures = dict.fromkeys((MSE, RMSE, NLL, coverage_of(level), WIDTH, SECONDS), math.nan)
            with suppress(InputError, DivergedError):  # of networks that diverged: left out
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
