"""Rows of the benchmark `vecchia`: QM9 gaps on the last hidden features of a source."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bandgap.datasets.demo import demo_source_folder
from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.research.shared.deep_kernel import rows_of
from bandgap.research.vecchia.ordering import Floats
from bandgap.sources.stored import load_source
from bandgap.structures import read_paths
from bandgap.transfer.shared.method import Scales, TargetData

FILE: Final = "qm9_gap/qm9_gap.extxyz.gz"


@dataclass(frozen=True, eq=False)
class Rows:
    """Coordinates (n, q), trend (n, p) and gaps (n,) in units of `unit_eV`."""

    points: Floats
    trend: Floats
    y: Floats
    unit_eV: float

    def part(self, rows: slice) -> "Rows":
        """Return a slice of the rows."""
        return Rows(self.points[rows], self.trend[rows], self.y[rows], self.unit_eV)


def read_rows(
    data: Path,
    *,
    n: int,
    n_test: int,
    seed: int,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> tuple[Rows, Rows]:
    """Return training and test rows; raise InputError if the file is missing or too short."""
    path = data / FILE
    if not path.is_file():
        raise InputError(f"{data} has no {FILE}. Give the folder that contains the data sets.")
    records = read_paths([path], progress=progress)
    gaps = np.asarray(labels_from_info(records, "gap_eV", unit="eV"), dtype=np.float64)
    source = load_source(demo_source_folder())
    table = learnable(
        records, gaps, descriptor=source.descriptor, cache=cache, n_jobs=1, progress=progress
    )
    if n + n_test > len(table.ids):
        raise InputError(
            f"{path.name} has {len(table.ids)} usable molecules, not {n} and {n_test} for testing. "
            "Ask for fewer rows."
        )
    split = permuted_split(table.ids, n_test=n_test, n_train=n, seed=seed)
    train = table.rows(split.train)
    test = table.rows(split.test)
    train_rows = rows_of(source, TargetData(train.features, train.gaps_eV), Scales(), seed=seed)
    unit = train_rows.standardiser.y_sd_eV
    points, trend = train_rows.coordinates_and_trend(test.features)
    return Rows(train_rows.points, train_rows.trend, train_rows.gaps, unit), Rows(
        points, trend, train_rows.standardiser.gaps(test.gaps_eV), unit
    )
