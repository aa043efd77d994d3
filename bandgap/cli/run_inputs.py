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
    source = stored_source(manifest, run) if source is None else source
    paths = tuple(structures or ())
    if not paths:
        paths = stored_structures(manifest, run)
        check_present(paths, run, option="--structures")
    if labels.is_given:
        labels.check()
        choice = replace(labels, level_of_theory=manifest["level_of_theory"])
    else:
        choice = stored_labels(manifest, run)
        check_present([] if choice.table is None else [choice.table], run, option="--labels")
    return RunInputs(source, paths, choice)


def features_of_run(stored: str, run: Path, *, named_file: str) -> str:
    """Return the table of own features that the user gives, else that of a run's request.

    Raises InputError where it does not exist.
    """
    if named_file:
        check_exist([Path(named_file)])
    elif stored:
        check_present([Path(stored)], run, option="its table of own features")
    return named_file or stored


def stored_source(manifest: Mapping[str, Any], run: Path) -> Path:
    """Return the source that the command of a run named."""
    return Path(_entry(manifest, "source", run, option="--source"))


def stored_structures(manifest: Mapping[str, Any], run: Path) -> tuple[Path, ...]:
    """Return the paths of the structures that the command of a run named."""
    return tuple(Path(text) for text in _entry(manifest, "structures", run, option="--structures"))


def stored_labels(manifest: Mapping[str, Any], run: Path) -> LabelChoice:
    """Return where the command of a run read the gaps."""
    names = ("label", "labels", "unit", "column", "id_column")
    key, table, unit, column, id_column = (
        _entry(manifest, name, run, option="--label or --labels") for name in names
    )
    return LabelChoice(
        key,
        None if table is None else Path(table),
        unit=unit,
        column=column,
        level_of_theory=manifest["level_of_theory"],
        id_column=id_column,
    )


def check_present(paths: Sequence[Path], run: Path, *, option: str) -> None:
    """Raise InputError for a stored path that does not exist from the current folder."""
    for path in paths:
        if not path.exists():
            raise InputError(
                f"{path}, which {run} was made from, does not exist here. Run this command in the "
                f"folder in which `bandgap transfer` ran, or give {option}."
            )


def _entry(manifest: Mapping[str, Any], name: str, run: Path, *, option: str) -> Any:
    inputs = manifest.get("inputs") or {}
    if name not in inputs:
        raise InputError(
            f"{run} does not say which files it was made from: it was not made by "
            f"`bandgap transfer`, or by an older version. Give {option}."
        )
    return inputs[name]
