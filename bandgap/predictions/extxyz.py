"""extXYZ files of predicted structures, with the predicted values in the comment lines.

For another interval, only these values are replaced in a stored file; the coordinates are copied
unread. Loads no ase until it writes structures.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import DOMAIN_P, P_METAL, Predictions

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord
    from bandgap.structures.records import InfoValue

LEVEL = 0.95

_TOKEN = re.compile(r'[^\s="]+="(?:[^"\\]|\\.)*"|\S+')
_NUMBER = re.compile(
    r"(?:predicted_gap_eV|predicted_sd_eV|p_metal|domain_p(?:_lowest|_highest)?|"
    r"(?:lower|upper)_[0-9.]+_eV|interval|warning)="
)


def predicted_blocks(
    predictions: Predictions,
    records: "Sequence[StructureRecord]",
    *,
    level: float,
    kind: IntervalKind,
) -> Iterator[str]:
    """Yield the extXYZ text of every structure with a prediction."""
    from bandgap.structures.formats.xyz import extxyz_blocks

    usable = usable_rows(predictions)
    numbers = interval_numbers(predictions, level=level, kind=kind)
    comments: list[dict[str, InfoValue]] = [
        {
            "id": predictions.ids[i],
            "file": predictions.files[i],
            **values,
            "warning": predictions.warning(i),
        }
        for i, values in zip(usable, numbers, strict=True)
    ]
    return extxyz_blocks([records[i] for i in usable], comments)


def interval_numbers(
    predictions: Predictions, *, level: float, kind: IntervalKind
) -> list[dict[str, float | str]]:
    """Return the numbers of every row that is not refused.

    They are mean, sd and both ends of the interval in eV, its kind, the probability of a metal if
    there is one, and how unusual the structure is if that is known.

    The names of the ends contain the level in per cent, such as lower_95_eV and upper_95_eV.
    """
    lower, upper = predictions.interval(level, kind)
    percent = f"{100 * level:.6g}"
    rows: list[dict[str, float | str]] = []
    for i in usable_rows(predictions):
        row: dict[str, float | str] = {
            "predicted_gap_eV": round(float(predictions.mean_eV[i]), 6),
            "predicted_sd_eV": round(float(predictions.sd_new_eV[i]), 6),
            f"lower_{percent}_eV": round(float(lower[i]), 6),
            f"upper_{percent}_eV": round(float(upper[i]), 6),
            "interval": kind,
        }
        if np.isnan(lower[i]):  # a withheld interval
            row = {"predicted_gap_eV": row["predicted_gap_eV"]}
        if predictions.p_metal is not None:
            row[P_METAL] = round(float(predictions.p_metal[i]), 6)
        if predictions.domain_p is not None and np.isfinite(predictions.domain_p[i]):
            row[DOMAIN_P] = round(float(predictions.domain_p[i]), 6)
        rows.append(row)
    return rows


def usable_rows(predictions: Predictions) -> list[int]:
    """Return the rows that are not refused; the file has a structure for each."""
    return [i for i, status in enumerate(predictions.status) if status != "refused"]


def with_interval(
    path: Path, predictions: Predictions, *, level: float, kind: IntervalKind
) -> bytes:
    """Return the content of a stored file with values and warnings of these predictions.

    Raises ArtifactError unless the file contains one structure for every row that is not refused.
    """
    numbers = interval_numbers(predictions, level=level, kind=kind)
    for i, values in zip(usable_rows(predictions), numbers, strict=True):
        if warning := " ".join(predictions.warning(i).replace("\\", "/").split()):
            values["warning"] = '"' + warning.replace('"', '\\"') + '"'
    with path.open(encoding="utf-8", newline="\n") as file:
        return "".join(_rewritten(iter(file), numbers, path)).encode()


def _rewritten(
    lines: Iterator[str], numbers: list[dict[str, float | str]], path: Path
) -> Iterator[str]:
    for values in numbers:
        count = next(lines, "")
        if not count.strip().isdigit():
            raise ArtifactError(
                _DAMAGED.format(path=path, structures=f"fewer than {len(numbers):,}")
            )
        yield count
        yield _comment(next(lines, ""), values)
        for _ in range(int(count)):
            yield next(lines, "")
    if next(lines, "").strip():
        raise ArtifactError(_DAMAGED.format(path=path, structures=f"more than {len(numbers):,}"))


def _comment(line: str, numbers: Mapping[str, float | str]) -> str:
    """Return a comment line in which the predicted values are replaced by `numbers`."""
    tokens = _TOKEN.findall(line)
    place = next((i for i, token in enumerate(tokens) if _NUMBER.match(token)), len(tokens))
    before = [token for token in tokens[:place] if not _NUMBER.match(token)]
    after = [token for token in tokens[place:] if not _NUMBER.match(token)]
    values = [f"{key}={value}" for key, value in numbers.items()]
    return " ".join([*before, *values, *after]) + "\n"


_DAMAGED = (
    "{path} contains {structures} structures, but the table of predictions has another number: the "
    "file is damaged. Predict these structures again."
)
