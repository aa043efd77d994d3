"""The prediction of the dashboard while it grows chunk by chunk, in constant memory and resumable.

A folder contains the table, the structures as extXYZ, and four files that only `finish` reads:

- `chunks.jsonl`: the texts of a chunk, one line for each;
- `numbers.bin`: the numbers of its rows (float64, (number, row) for every chunk);
- `draws.bin`: draws of the means of structures whose gap is not known (float32, (structure, draw));
- `joint.bin`: row and noise variance of each of these structures (float64, (structure, 2)).

Loads no torch.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.damage import parse_json
from bandgap.foundation.replacement import replaced_folder
from bandgap.foundation.tensor_files import LongTensor, write_tensors
from bandgap.predictions.counting import counts_of
from bandgap.predictions.details import ROWS, PredictionDetails, subset_of_structures
from bandgap.predictions.extxyz import LEVEL, predicted_blocks
from bandgap.predictions.growing import GrowingTable
from bandgap.predictions.store import (
    DETAILS,
    EXTXYZ,
    FORMAT,
    PREDICTIONS_CSV,
    QUANTILES,
    SCORES,
    save_details,
)
from bandgap.predictions.table import DOMAIN_P, LEVELS, NUMBERS, P_METAL, TEXTS, Predictions

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord

MAX_EXTXYZ_BYTES = 100_000_000

_PARTS = {
    "structures": EXTXYZ,
    "chunks": "chunks.jsonl",
    "numbers": "numbers.bin",
    "joint": "joint.bin",
    "draws": "draws.bin",
}
_WIDTHS = {name: LEVELS.size if name.startswith("quantiles") else 1 for name in NUMBERS} | {
    P_METAL: 1,
    DOMAIN_P: 1,
    **dict.fromkeys(ROWS, 1),
}
# Position among a row's numbers.
_FIRST = dict(zip(_WIDTHS, np.cumsum([0, *_WIDTHS.values()]).tolist(), strict=False))
_ROW_BYTES = 8 * sum(_WIDTHS.values())


class GrowingPrediction:
    """A prediction that is being written; `work` and `made_of` are those of its `GrowingTable`.

    Use it in a `with` statement, and call `finish` in its block.
    """

    def __init__(self, folder: Path, *, work: str, made_of: Callable[[int], str]) -> None:
        other_files = {name: folder / file for name, file in _PARTS.items()}
        self._table = GrowingTable(
            folder / PREDICTIONS_CSV, work=work, made_of=made_of, other_files=other_files
        )
        self.n_resumed_rows = self._table.rows  # complete rows of an earlier attempt

    def __enter__(self) -> Self:
        self._table.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._table.__exit__(kind, error, trace)

    @property
    def rows(self) -> int:
        """Number of complete rows."""
        return self._table.rows

    @property
    def counts(self) -> Counter[str]:
        """Counts of the complete rows (`counts_of`)."""
        return self._table.counts

    def add(
        self,
        predictions: Predictions,
        details: PredictionDetails,
        records: "Sequence[StructureRecord]",
    ) -> None:
        """Write the next rows; row numbers in the details start at 0 for each chunk."""
        is_first = self.rows == 0
        table = predictions.to_csv()
        line: dict[str, Any] = {name: getattr(predictions, name) for name in TEXTS}
        line |= {"rows": len(predictions), "nearest": details.nearest}
        if is_first:
            scores = predictions.conformal
            line["level_of_theory"] = predictions.level_of_theory
            line["optional"] = [
                name for name in (P_METAL, DOMAIN_P) if getattr(predictions, name) is not None
            ]
            line["conformal"] = None if scores is None else (scores.ids, scores.scores.tolist())
        numbers = [getattr(predictions, name) for name in NUMBERS]
        numbers += [
            np.full(len(predictions), np.nan) if values is None else values
            for values in (predictions.p_metal, predictions.domain_p)
        ]
        numbers += [getattr(details, name) for name in ROWS]
        joint = np.stack([details.joint_rows + float(self.rows), details.noise_variance], axis=1)
        # `finish` leaves out a file that is too long.
        is_too_long = self._table.files["structures"].size > MAX_EXTXYZ_BYTES
        blocks = (
            ()
            if is_too_long
            else predicted_blocks(predictions, records, level=LEVEL, kind="prediction")
        )
        self._table.commit(
            len(predictions),
            counts_of(predictions),
            table=table if is_first else table.partition("\n")[2],
            structures="".join(blocks),
            chunks=json.dumps(line) + "\n",
            numbers=np.vstack(numbers).astype(np.float64).tobytes(),
            joint=joint.astype(np.float64).tobytes(),
            draws=np.ascontiguousarray(details.means_eV.T, dtype=np.float32).tobytes(),
        )

    def finish(self, folder: Path) -> None:
        """Write all files of the prediction to a folder, atomically.

        The extXYZ file is left out over `MAX_EXTXYZ_BYTES`.
        """
        files = {"table": PREDICTIONS_CSV}
        if self._table.files["structures"].size <= MAX_EXTXYZ_BYTES:
            files["structures"] = EXTXYZ
        with replaced_folder(folder) as new_folder:
            self._write_predictions(new_folder / QUANTILES)
            save_details(new_folder / DETAILS, self._details())
            for name, file in files.items():
                self._table.files[name].end()
                shutil.copyfile(self._table.files[name].path, new_folder / file)

    def _write_predictions(self, path: Path) -> None:
        """Write the file that `save_predictions` would write for all chunks together."""
        first = next(self._lines(), {})
        sizes = [int(line["rows"]) for line in self._lines()]
        optional = first.get("optional", [])
        metadata: dict[str, Any] = {
            "format": FORMAT,
            "texts": self._texts(),
            "level_of_theory": str(first.get("level_of_theory", "")),
        }
        with self._table.files["numbers"].path.open("rb") as file:
            n = sum(sizes)
            tensors = {
                name: LongTensor(
                    np.dtype(np.float64),
                    (n,) if _WIDTHS[name] == 1 else (_WIDTHS[name], n),
                    _bytes_of(file, sizes, name),
                )
                for name in (*NUMBERS, *optional)
            }
            if (scores := first.get("conformal")) is not None:
                tensors[SCORES] = LongTensor.of(np.array(scores[1], dtype=np.float64))
                metadata[SCORES] = json.dumps(scores[0])
            write_tensors(path, tensors, metadata=metadata)

    def _texts(self) -> Iterator[str]:
        """Yield the texts of all rows as JSON, piece by piece."""
        for k, name in enumerate(TEXTS):
            yield f'{", " if k else "{"}"{name}": ['
            for position, line in enumerate(self._lines()):
                yield (", " if position else "") + json.dumps(line[name])[1:-1]
            yield "]"
        yield "}"

    def _details(self) -> PredictionDetails:
        """Return the details of all rows: 60 bytes a row, and joint draws of bounded size."""
        sizes = [int(line["rows"]) for line in self._lines()]
        with self._table.files["numbers"].path.open("rb") as file:
            rows = {name: np.frombuffer(b"".join(_bytes_of(file, sizes, name))) for name in ROWS}
        joint = np.fromfile(self._table.files["joint"].path).reshape(-1, 2)
        n_draws = self._table.files["draws"].size // (4 * max(len(joint), 1))
        subset = subset_of_structures(len(joint), draws=n_draws)
        return PredictionDetails(
            nearest=tuple(name for line in self._lines() for name in line["nearest"]),
            n_atoms=rows["n_atoms"].astype(np.int64),
            distance=rows["distance"],
            percentile=rows["percentile"],
            labelled=rows["labelled"] != 0,
            joint_rows=joint[subset, 0].astype(np.int64),
            means_eV=self._joint_draws(subset, n_draws=n_draws),
            noise_variance=np.ascontiguousarray(joint[subset, 1]),
        )

    def _joint_draws(self, subset: NDArray[np.int64], *, n_draws: int) -> NDArray[np.float32]:
        """Return the draws (draw, k) of the structures at these positions (k,) in the file of
        draws.
        """
        draws = np.empty((subset.size, n_draws), dtype=np.float32)
        with self._table.files["draws"].path.open("rb") as file:
            for k, position in enumerate(subset.tolist()):
                file.seek(4 * n_draws * position)
                draws[k] = np.frombuffer(file.read(4 * n_draws), dtype=np.float32)
        return np.ascontiguousarray(draws.T)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self._table.files["chunks"].path.open(encoding="utf-8") as file:
            for line in file:
                yield parse_json(line, what=str(self._table.files["chunks"].path))


def _bytes_of(file: BinaryIO, sizes: Sequence[int], name: str) -> Iterator[bytes]:
    """Yield the numbers of this name for all rows, one quantile after another, from chunks of these
    sizes.
    """
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    for number in range(_FIRST[name], _FIRST[name] + _WIDTHS[name]):
        for start, size in zip(starts, sizes, strict=True):
            file.seek(start * _ROW_BYTES + number * size * 8)
            yield file.read(8 * size)
