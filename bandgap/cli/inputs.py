"""Structures and gaps from the options of commands: paths, and a key in the files or a table."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bandgap.datasets.units import Unit
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bandgap.datasets.table import LabelledSet
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.structures import StructureRecord
    from bandgap.structures.records import Records, Tally
    from bandgap.structures.spool import Spool

# Largest input that is read before predicting: about 100,000 molecules, ten seconds.
READ_FIRST_BYTES = 64 * 2**20


def print_note(text: str) -> None:
    """Print one line for the user to stderr, next to the progress; stdout contains only results."""
    typer.echo(text, err=True)


def load_structures(paths: Sequence[Path], *, progress: Progress) -> list[StructureRecord]:
    """Read every structure under the paths, and print the counts of the verdicts.

    Raises InputError for a path that does not exist.
    """
    from bandgap.structures import read_paths
    from bandgap.structures.records import Tally

    check_exist(paths)
    records = read_paths(paths, progress=progress)
    print_tally(Tally.of(records))
    return records


def read_or_spool(
    paths: Sequence[Path], *, n_in_memory: int, is_ahead: bool, progress: Progress
) -> list[StructureRecord] | Spool:
    """Read every structure under the paths into a list, or to the disk if there are too many.

    The counts of `load_structures` are printed once all structures are read. The limits are
    `STREAM_LIMITS`.

    Parameters
    ----------
    paths
        Files and folders.
    n_in_memory
        Largest number of structures in a list.
    is_ahead
        Whether the structures beyond this number are read when they are needed. The counts are
        then not printed, and `progress` is not called.
    progress
        Called before every file.
    """
    from bandgap.structures.ids import with_unique_ids
    from bandgap.structures.reading import stream_paths
    from bandgap.structures.records import STREAM_LIMITS, Tally

    if is_ahead:
        stream = stream_paths(paths, limits=STREAM_LIMITS)
    else:
        stream = stream_paths(paths, limits=STREAM_LIMITS, progress=progress)
    first_records = list(islice(stream, n_in_memory + 1))
    if len(first_records) <= n_in_memory:
        records = with_unique_ids(first_records)
        print_tally(Tally.of(records))
        return records

    from bandgap.structures.spool import Spool

    spool = Spool(chain(first_records, stream))
    if not is_ahead:
        print_tally(spool.tally)
    return spool


def takes_long_to_read(paths: Sequence[Path]) -> bool:
    """Return whether predictions should start before all files under the paths are read.

    A file whose size cannot be read counts as empty; reading it later raises the error.
    """
    from bandgap.structures.reading import files_under

    total = 0
    for path in paths:
        for file in files_under(path):
            with contextlib.suppress(OSError):
                total += os.path.getsize(file)
            if total > READ_FIRST_BYTES:
                return True
    return False


def print_tally(tally: Tally) -> None:
    """Print the counts of the verdicts and the first reasons for refusal."""
    print_note(_verdict_counts(tally.counts))
    for file, reason in tally.refused:
        print_note(f"  {file}: {reason}")
    n_more = tally.counts["refused"] - len(tally.refused)
    if n_more > 0:
        print_note(f"  ... and {n_more:,} more; `bandgap check` lists them all.")


def verdict_counts(records: Iterable[StructureRecord]) -> str:
    """Return the counts of the verdicts in one sentence."""
    return _verdict_counts(Counter(record.status for record in records))


def _verdict_counts(counts: Counter[str]) -> str:
    noun = "structure" if counts.total() == 1 else "structures"
    ready, warning, refused = (counts[status] for status in ("ready", "warning", "refused"))
    return (
        f"{counts.total():,} {noun}: {ready:,} ready, {warning:,} with a "
        f"warning, {refused:,} refused."
    )


def check_exist(paths: Sequence[Path]) -> None:
    """Raise InputError for a path that does not exist."""
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")


@dataclass(frozen=True)
class LabelChoice:
    """Where the gaps are: a key in the extXYZ files, or a table.

    Unit, column and level if not stated there.
    """

    key: str | None = None
    table: Path | None = None
    unit: Unit | None = None
    column: str | None = None
    level_of_theory: str = ""
    id_column: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is a key or a table."""
        return self.key is not None or self.table is not None

    def check(self) -> None:
        """Raise a usage error unless exactly one of key and table is given."""
        if (self.key is None) == (self.table is None):
            problem = "Neither was given." if self.key is None else "Both were given."
            raise typer.BadParameter(
                "say where the gaps are: --label KEY (a key in the extXYZ files) or --labels "
                f"CSV (a table). {problem}"
            )


def check_inputs(paths: Sequence[Path], choice: LabelChoice) -> None:
    """Raise InputError for a path of structures or a table of labels that does not exist.

    Raises a usage error unless exactly one of key and table is given. Reading the structures takes
    longer than this check, so it comes first.
    """
    choice.check()
    check_exist(paths)
    if choice.table is not None:
        check_exist([choice.table])


def load_gaps(
    records: Sequence[StructureRecord], choice: LabelChoice
) -> tuple[NDArray[np.float64], str]:
    """Return the gap (n,) in eV of every record, NaN where there is none, and the level of theory.

    Labels and structures that do not match are reported on stderr. Raises InputError when no
    structure has a gap.
    """
    import numpy as np

    from bandgap.datasets.gaps import (
        distinct_levels,
        labels_from_info,
        large_gaps_warning,
        levels_of_records,
        mixed_levels_warning,
    )

    if choice.key is not None:
        gaps = labels_from_info(records, choice.key, unit=choice.unit)
        levels = distinct_levels([choice.level_of_theory, *levels_of_records(records)])
        level_of_theory = "; ".join(levels)
        if warning := mixed_levels_warning(levels):
            print_note(f"Warning: {warning}")
        print_note(
            f"{np.isfinite(gaps).sum():,} of {len(records):,} structures have a gap "
            f"under {choice.key!r}."
        )
    else:
        assert choice.table is not None  # a LabelChoice has exactly one of the two
        gaps, level_of_theory = _gaps_of_table(records, choice.table, choice)
    if not np.isfinite(gaps).any():
        where = f"the key {choice.key!r}" if choice.key is not None else f"{choice.table}"
        raise InputError(
            f"None of the {len(records):,} structures has a gap by {where}. Check the key, "
            "or the ids in the table."
        )
    if warning := large_gaps_warning([record.id for record in records], gaps):
        print_note(f"Warning: {warning}")
    return gaps, level_of_theory


def load_labelled(
    paths: Sequence[Path],
    choice: LabelChoice,
    *,
    baseline: str = "",
    features: str = "",
    progress: Progress,
) -> LabelledSet:
    """Read structures with their gaps, and with baseline and own features if they are named."""
    from bandgap.datasets.table import LabelledSet

    records = load_structures(paths, progress=progress)
    gaps, level_of_theory = load_gaps(records, choice)
    baseline_eV = load_baseline(records, baseline, table=choice.table) if baseline else None
    records = load_features(records, features)
    return LabelledSet(records, gaps, level_of_theory, baseline_eV=baseline_eV)


def load_features(records: list[StructureRecord], features: str) -> list[StructureRecord]:
    """Return the records with their rows of a table of own features, if one is named."""
    if not features:
        return records
    from bandgap.datasets.own_features import own_features

    table = own_features(features)
    joined = table.matched(records)
    print_note(table.summary(joined))
    return joined


def load_baseline(records: Records, name: str, *, table: Path | None = None) -> NDArray[np.float64]:
    """Return the baseline (n,) in eV of every record, NaN where there is none.

    Parameters
    ----------
    records
        Structures.
    name
        Column of the table, or key of the extXYZ files. It states the unit, as in gap_pbe_eV.
    table
        Table with the values. Default: the extXYZ files.

    Raises
    ------
    InputError
        When no structure has a baseline, and when the name states no unit.
    """
    import numpy as np

    if table is None:
        from bandgap.datasets.gaps import baselines_from_info

        values = baselines_from_info(records, name)
        print_note(
            f"{np.isfinite(values).sum():,} of {len(records):,} structures have a "
            f"baseline under {name!r}."
        )
    else:
        values, _ = _gaps_of_table(records, table, LabelChoice(None, table, column=name))
    if not np.isfinite(values).any():
        where = (
            f"the key {name!r} of extXYZ files"
            if table is None
            else f"the column {name!r} of {table}"
        )
        raise InputError(f"None of the {len(records):,} structures has a baseline by {where}.")
    return values


def descriptor_cache() -> DescriptorCache:
    """Return the descriptor cache in the data directory, which the dashboard uses as well."""
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.jobs.home import open_home

    return DescriptorCache(open_home().cache)


def _gaps_of_table(
    records: Records, table: Path, choice: LabelChoice
) -> tuple[NDArray[np.float64], str]:
    from bandgap.datasets.labels import match_labels, read_labels

    labels = read_labels(
        table,
        unit=choice.unit,
        column=choice.column,
        id_column=choice.id_column,
        level_of_theory=choice.level_of_theory,
    )
    matched = match_labels([r.id for r in records], [r.file for r in records], labels)
    for sentence in (*labels.problems, *matched.problems, matched.summary):
        print_note(sentence)
    return matched.gaps, labels.level_of_theory
