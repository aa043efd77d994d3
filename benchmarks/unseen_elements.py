"""Predictions of structures with an element that the labelled ones lack.

Every element that 4 to 40 % of a set's structures contain is withheld in turn: a method learns from
structures without it, and predicts some with it and others without it. Terms of MBTR leave the
atoms of the element out, as in `runs.new_structures`. The errors in units of the predicted standard
deviation say how much wider the intervals of structures with the element would have to be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.demo import demo_source_folder
from bandgap.datasets.table import LabelledSet, Table, elements_of, learnable
from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import Progress, no_progress
from bandgap.predictions.mixtures import mixture_sd
from bandgap.runs.comparison import heldout_figures
from bandgap.runs.origin import descriptor_taken
from bandgap.sources.no_source import descriptor_for_labelled
from bandgap.sources.sets import open_sources
from bandgap.transfer import TargetData, get_method
from benchmarks.crystals import SETS, labelled_of
from benchmarks.method_start import MethodStart

METHODS: Final = ("stacking", "gaussian_process", "kernel_ridge", "gradient_boosting", "feature_gp")
SHARES: Final = (0.04, 0.4)  # of a set's structures, of elements that are withheld


@dataclass(frozen=True)
class UnseenElementsBenchmark:
    """Methods, numbers of structures to learn from and to predict of each kind, and seeds."""

    methods: tuple[str, ...] = METHODS
    n: int = 150
    n_test: int = 100
    seeds: tuple[int, ...] = (0, 1)


def run_unseen_elements(
    name: str,
    data: Path,
    config: UnseenElementsBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[dict[str, Any]]:
    """Yield the figures of each withheld element, seed and method of a set.

    `feature_gp` starts from the shipped source on molecules and is left out on the other sets.
    """
    settings: dict[str, Any] = {"cache": cache, "n_jobs": n_jobs, "progress": progress}
    labelled = labelled_of(SETS[name], data, progress)
    elements = [elements_of(record) for record in labelled.records]
    for element in withheld_elements(elements):
        has_element = np.array([element in present for present in elements])
        for seed in config.seeds:
            order = np.random.default_rng(seed).permutation(len(elements))
            without_element = order[~has_element[order]]
            train = without_element[: config.n]
            familiar = without_element[config.n :][: config.n_test]
            unseen = order[has_element[order]][: config.n_test]
            for method in config.methods:
                if method == "feature_gp" and SETS[name].source != "molecules":
                    continue
                yield {
                    "element": element,
                    "seed": seed,
                    "method": method,
                    **_figures(labelled, method, (train, familiar, unseen), seed, settings),
                }


def withheld_elements(elements: list[set[str]]) -> list[str]:
    """Return the elements that a share of the structures within `SHARES` contains.

    Examples
    --------
    >>> withheld_elements([{"C", "S"}, {"C"}, {"C"}, {"C"}])
    ['S']
    """
    low, high = SHARES
    return [
        element
        for element in sorted(set().union(*elements))
        if low <= np.mean([element in present for present in elements]) <= high
    ]


def _figures(
    labelled: LabelledSet,
    method_name: str,
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    seed: int,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    method = get_method(method_name)
    train_records = [labelled.records[i] for i in rows[0]]
    members: list[Any] = []
    descriptor = descriptor_for_labelled(train_records, labelled.gaps_eV[rows[0]])
    if method.transfers:
        members = open_sources(demo_source_folder()).load(verify=False)
        source_descriptor = next(iter(members[0].values())).descriptor
        train_elements = sorted(set().union(*(elements_of(record) for record in train_records)))
        descriptor = descriptor_taken(source_descriptor, method, train_elements) or descriptor
    tables = [_table(labelled, part, descriptor, settings) for part in rows]
    data = TargetData(tables[0].features, tables[0].gaps_eV)
    posterior = MethodStart(descriptor, members).posterior(method, data, seed=seed)
    familiar, unseen = (_errors(posterior, table) for table in tables[1:])
    return {"features": len(tables[0].features[0]), "familiar": familiar, "unseen": unseen}


def _table(
    labelled: LabelledSet,
    rows: NDArray[np.int64],
    descriptor: DescriptorConfig,
    settings: Mapping[str, Any],
) -> Table:
    return learnable(
        [labelled.records[i] for i in rows],
        labelled.gaps_eV[rows],
        descriptor=replace(descriptor, leaves_out_atoms=True),
        **settings,
    )


def _errors(posterior: Any, table: Table) -> dict[str, float]:
    """Return errors, coverage, and the size of the errors in predicted standard deviations."""
    draws = posterior.predictive_draws(table.features)
    errors_eV = draws.flat_means_eV.mean(axis=0) - table.gaps_eV
    sds_eV = mixture_sd(draws.centres_eV, draws.sds_eV)
    figures = heldout_figures(draws, table.gaps_eV)
    return {
        "n": len(table),
        "rmse_eV": figures["rmse_eV"],
        "coverage_95": figures["coverage_95"],
        "sd_eV": float(np.median(sds_eV)),
        "scale": float(np.sqrt(np.mean((errors_eV / sds_eV) ** 2))),
    }
