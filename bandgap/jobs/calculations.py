"""Calculations that were uploaded: start their reading, read the table, make a data set of it."""

from dataclasses import dataclass
from typing import Any

from bandgap.datasets.gaps import distinct_levels, mixed_levels_warning
from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import InputError, listed
from bandgap.jobs.home import Home, calculation_paths
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, StoredFile
from bandgap.jobs.store import Job, JobStore

_MAX_NAMES = 5  # calculations that a warning names


@dataclass(frozen=True)
class CalculationTable:
    """The result of reading calculations: a sentence with counts, and columns of a table.

    The columns are those of `bandgap.calculations.tables.calculation_columns`.
    """

    summary: str
    columns: dict[str, list[Any]]

    @property
    def usable_rows(self) -> list[int]:
        """Rows with a gap."""
        return [row for row, gap in enumerate(self.columns["gap_eV"]) if gap is not None]

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of theory of the usable rows, each once."""
        return distinct_levels(self.columns["level_of_theory"][row] for row in self.usable_rows)

    @property
    def level_warning(self) -> str:
        """A warning if there is more than one level of theory, otherwise ""."""
        return mixed_levels_warning(self.levels)

    def problems(self) -> list[str]:
        """Return what the labelled data set has to say: mixed levels, and doubtful gaps."""
        problems = [self.level_warning] if self.level_warning else []
        doubtful = [row for row in self.usable_rows if self.columns["problem"][row]]
        if doubtful:
            names = listed([str(self.columns["id"][row]) for row in doubtful], _MAX_NAMES)
            first = self.columns["problem"][doubtful[0]]
            problems.append(f"Calculations with a remark: {names}. The first: {first}.")
        return problems


def calculation_table(home: Home, dataset_id: str) -> CalculationTable:
    """Return the table that the job wrote. Raises InputError if there is none."""
    path, _ = calculation_paths(home, dataset_id)
    try:
        table = parse_json(path.read_text(encoding="utf-8"), what="table of calculations")
        return CalculationTable(str(table["summary"]), dict(table["columns"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "The table of these calculations is missing or damaged. Read the calculations again."
        ) from error


def add_labelled_dataset(
    library: Library,
    calculations: Dataset,
    table: CalculationTable,
    *,
    name: str,
    dataset_id: str,
    jobs: JobStore,
) -> Dataset:
    """Store the structures of calculations as a data set and queue the job that labels it.

    Parameters
    ----------
    library
        Store of the data sets.
    calculations
        Data set of the uploaded outputs.
    table
        Its table.
    name, dataset_id
        Name and id of the new data set. Where the id exists, nothing is changed.
    jobs
        Store of the jobs.

    Raises
    ------
    InputError
        If the structures are no longer stored.
    """
    library.database.check_writable()
    _, path = calculation_paths(library.home, calculations.id)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            "The structures of these calculations are no longer stored. Read them again."
        ) from error
    file = StoredFile("calculations.extxyz", library.home.save_upload(data), len(data))

    def submit_labels(dataset: Dataset) -> Job:
        return jobs.start(
            dataset.workspace,
            "label_calculations",
            title=f"Checking {dataset.name}",
            payload={
                "dataset": dataset.id,
                "level_of_theory": "; ".join(table.levels),
                "problems": table.problems(),
            },
            subject=dataset.id,
        )

    return library.add_dataset(
        calculations.workspace,
        name,
        dataset_id=dataset_id,
        stored=[file],
        then=submit_labels,
    )
