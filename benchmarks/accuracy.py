"""Accuracy of methods on organic crystals of the OMDB with PBE gaps.

Source networks are trained once on three sets together: QM9, conjugated molecules and OE62 with GW
gaps. All methods are then compared on the same splits. The data are not shipped: a folder with the
files named here is needed.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.table import LabelledSet, learnable
from bandgap.descriptors import PRESETS
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.runs.compared_fits import (
    ComparedFit,
    append_fit,
    read_fits,
    recomputed_sentence,
    reusable_fits,
)
from bandgap.runs.comparison import Comparison, compare, compared_of, facts_by_method, levels_of
from bandgap.sources.model import SourceConfig
from bandgap.sources.sets import open_sources
from bandgap.sources.training import train_sources_run
from bandgap.storage.result_folders import check_table_folder
from bandgap.structures import StructureRecord, read_paths
from bandgap.structures.displaced import DISPLACEMENT
from benchmarks.kept_parts import file_digest, kept_source

PRESET: Final = "oe62-16-roots"
SOURCES: Final = {
    "qm9": ("qm9_gap/qm9_gap.extxyz.gz", "B3LYP/6-31G(2df,p)"),
    "conjugated": ("conjugated_b3lyp/conjugated_b3lyp.extxyz.gz", "B3LYP/6-31G(d,p)"),
    "oe62": ("oe62_gw/oe62_gw.extxyz.gz", "G0W0@PBE0"),
}
TARGET: Final = "omdb_crystal_gap/omdb_crystal_gap_etkdg.extxyz.gz"
LABEL: Final = "gap_eV"
RESULTS: Final = "fits.jsonl"

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class AccuracyBenchmark:
    """Methods, sizes, seeds, number of test rows, and the training of the source networks."""

    methods: tuple[str, ...]
    sizes: tuple[int, ...] = (100, 250, 500, 1000)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_test: int = 700
    members: int = 4
    source_seed: int = 0
    training: JointTrainingConfig = JointTrainingConfig()
    hidden: tuple[int, ...] = (512, 256)
    displacement_angstrom: float = DISPLACEMENT


def run_accuracy(
    data: Path,
    out: Path,
    config: AccuracyBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[ComparedFit]:
    """Yield each fit. Stored fits of `out` come first if their inputs are unchanged.

    Raises
    ------
    InputError
        If a file is missing in `data`, or `out` is the folder of a run or source model.
    """
    comparison = Comparison(
        {name: {} for name in config.methods}, config.sizes, config.seeds, config.n_test
    )
    missing = [
        name
        for name in (*(path for path, _ in SOURCES.values()), TARGET)
        if not (data / name).is_file()
    ]
    if missing:
        raise InputError(
            f"{data} has no {missing[0]}. Give the folder that contains the data sets."
        )
    check_table_folder(out, RESULTS, "source")
    settings: dict[str, Any] = {"cache": cache, "n_jobs": n_jobs, "progress": progress}

    def train() -> Path:
        sets = {
            name: _labelled(data / path, level, progress=progress)
            for name, (path, level) in SOURCES.items()
        }
        return train_sources_run(
            sets,
            descriptor=PRESETS[PRESET],
            config=SourceConfig(hidden=config.hidden),
            training=config.training,
            members=config.members,
            displacement_angstrom=config.displacement_angstrom,
            out=out / "source",
            seed=config.source_seed,
            **settings,
        )

    request = {
        name: getattr(config, name)
        for name in ("members", "source_seed", "hidden", "displacement_angstrom")
    }
    made_of = {
        "data": [file_digest(data / path) for path, _ in SOURCES.values()],
        "descriptor": fingerprint(PRESETS[PRESET]),
        "training": to_dict(config.training),
        **request,
    }
    source = kept_source(out / "source", made_of, train)
    target = _labelled(data / TARGET, "PBE", progress=progress)
    descriptor = replace(PRESETS[PRESET], levels=levels_of(config.methods))
    table = learnable(target.records, target.gaps_eV, descriptor=descriptor, **settings)
    members = open_sources(source).load(verify=False)
    stored_fits = read_fits(out / RESULTS)
    facts = facts_by_method(compared_of(members, table), comparison)
    if sentence := recomputed_sentence(stored_fits, facts, where=out / RESULTS):
        _LOG.warning("%s", sentence)
    done = reusable_fits(stored_fits, facts)
    yield from done
    for fit in compare(compared_of(members, table), comparison, done=done, progress=progress):
        append_fit(out / RESULTS, fit)
        yield fit


def _labelled(path: Path, level_of_theory: str, *, progress: Progress) -> LabelledSet:
    records: list[StructureRecord] = read_paths([path], progress=progress)
    gaps = np.asarray(labels_from_info(records, LABEL, unit="eV"), dtype=np.float64)
    return LabelledSet(records, gaps, level_of_theory)
