"""Where the inputs of a run were read: the entry `inputs` of its manifest, written and read here.

Paths are stored as they were given, relative ones to the folder in which the command ran.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bandgap.cli.inputs import LabelChoice, check_exist
from bandgap.foundation.errors import InputError


@dataclass(frozen=True)
class RunInputs:
    """Source, structures and gaps of `bandgap transfer`, as its options name them."""

    source: Path
    structures: tuple[Path, ...]
    labels: LabelChoice

    def to_values(self) -> dict[str, Any]:
        """Return the entry of the manifest."""
        choice = self.labels
        return {
            "source": str(self.source),
            "structures": [str(path) for path in self.structures],
            "label": choice.key,
            "labels": None if choice.table is None else str(choice.table),
            "unit": choice.unit,
            "column": choice.column,
            "id_column": choice.id_column,
        }


def inputs_of_run(
    manifest: Mapping[str, Any],
    run: Path,
    *,
    source: Path | None,
    structures: Sequence[Path] | None,
    labels: LabelChoice,
) -> RunInputs:
    """Return the inputs of a run: those that options name, the others as its command named them.

    Raises InputError where a file that the command read is no longer there.
    """
    stored = manifest.get("inputs") or {}
    values = {"--source": source, "--structures": structures, "--label(s)": labels.is_given}
    missing = [option for option, value in values.items() if not value]
    if missing and "id_column" not in stored:
        raise InputError(
            f"{run} does not say which files it was made from: it was not made by "
            f"`bandgap transfer`, or by an older version. Give {', '.join(missing)}."
        )
    paths = tuple(structures or map(Path, stored["structures"]))
    if not structures:
        check_present(paths, run, option="--structures")
    if labels.is_given:
        labels.check()
    else:
        table = stored["labels"]
        labels = LabelChoice(
            stored["label"],
            None if table is None else Path(table),
            stored["unit"],
            stored["column"],
            id_column=stored["id_column"],
        )
        check_present([labels.table] if labels.table else [], run, option="--labels")
    labels = replace(labels, level_of_theory=manifest["level_of_theory"])
    return RunInputs(source or Path(stored["source"]), paths, labels)


def features_of_run(stored: str, run: Path, *, named_file: str) -> str:
    """Return the table of own features that the user gives, else that of a run's request.

    Raises InputError where it does not exist.
    """
    if named_file:
        check_exist([Path(named_file)])
    elif stored:
        check_present([Path(stored)], run, option="its table of own features")
    return named_file or stored


def check_present(paths: Sequence[Path], run: Path, *, option: str) -> None:
    """Raise InputError for a stored path that does not exist from the current folder."""
    for path in paths:
        if not path.exists():
            raise InputError(
                f"{path}, which {run} was made from, does not exist here. Run this command in the "
                f"folder in which `bandgap transfer` ran, or give {option}."
            )
