"""The prediction that pages show, while it grows chunk by chunk: flat in memory, and taken up again after a break.

In a folder of its own lie the table, the structures as extXYZ, and three files that only `finish` reads: `chunks.jsonl`
has the texts of a chunk in a line, `numbers.bin` the numbers of its rows (float64, (number, row) for every chunk), and
`draws.bin` the draws of the means of structures whose gap is not known (float32, (structure, draw)), which belong to
rows and noise variances in `kept.bin` (float64, (structure, 2)). Loads no torch.
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
from bandgap.predictions.details import ROWS, PredictionDetails, chosen_of
from bandgap.predictions.extxyz import LEVEL, predicted_blocks
from bandgap.predictions.growing import GrowingTable
from bandgap.predictions.store import DETAILS, EXTXYZ, FORMAT, PREDICTIONS_CSV, QUANTILES, SCORES, save_details
from bandgap.predictions.table import LEVELS, NUMBERS, TEXTS, Predictions

if TYPE_CHECKING:
    from bandgap.structures import StructureRecord

MAX_EXTXYZ_BYTES = 100_000_000

_PARTS = {
    "structures": EXTXYZ,
    "chunks": "chunks.jsonl",
    "numbers": "numbers.bin",
    "kept": "kept.bin",
    "draws": "draws.bin",
}
_WIDTHS = {name: LEVELS.size if name.startswith("quantiles") else 1 for name in NUMBERS} | dict.fromkeys(ROWS, 1)
_FIRST = dict(zip(_WIDTHS, np.cumsum([0, *_WIDTHS.values()]).tolist(), strict=False))  # place among a row's numbers
_ROW_BYTES = 8 * sum(_WIDTHS.values())


class GrowingPrediction:
    """What is there of a prediction; `work` and `made_of` name what makes its rows, as `GrowingTable` has it.

    Use it in a `with`, and call `finish` in its block.
    """

    def __init__(self, folder: Path, *, work: str, made_of: Callable[[int], str]) -> None:
        others = {name: folder / file for name, file in _PARTS.items()}
        self._table = GrowingTable(folder / PREDICTIONS_CSV, work=work, made_of=made_of, others=others)
        self.taken_up = self._table.rows  # rows that an earlier attempt has left

    def __enter__(self) -> Self:
        self._table.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.__exit__(kind, error, trace)

    @property
    def rows(self) -> int:
        """Rows that are written."""
        return self._table.rows

    @property
    def counts(self) -> Counter[str]:
        """Counts of these (`counts_of`)."""
        return self._table.counts

    def add(self, predictions: Predictions, details: PredictionDetails, records: "Sequence[StructureRecord]") -> None:
        """Write the next rows; those of the details begin at 0, as those of the predictions do."""
        first = self.rows == 0
        table = predictions.to_csv()
        line: dict[str, Any] = {name: getattr(predictions, name) for name in TEXTS}
        line |= {"rows": len(predictions), "nearest": details.nearest}
        if first:
            scores = predictions.conformal
            line["level_of_theory"] = predictions.level_of_theory
            line["conformal"] = None if scores is None else (scores.ids, scores.scores.tolist())
        numbers = [getattr(predictions, name) for name in NUMBERS] + [getattr(details, name) for name in ROWS]
        kept = np.stack([details.kept + float(self.rows), details.noise_variance], axis=1)
        long = self._table.files["structures"].size > MAX_EXTXYZ_BYTES  # no more of it, as it will be left out
        blocks = () if long else predicted_blocks(predictions, records, level=LEVEL, kind="prediction")
        self._table.commit(
            len(predictions),
            counts_of(predictions),
            table=table if first else table.partition("\n")[2],
            structures="".join(blocks),
            chunks=json.dumps(line) + "\n",
            numbers=np.vstack(numbers).astype(np.float64).tobytes(),
            kept=kept.astype(np.float64).tobytes(),
            draws=np.ascontiguousarray(details.means_eV.T, dtype=np.float32).tobytes(),
        )

    def finish(self, folder: Path) -> None:
        """Write everything that pages show to the folder, as a whole.

        The extXYZ file is left out over `MAX_EXTXYZ_BYTES`.
        """
        files = {"table": PREDICTIONS_CSV}
        if self._table.files["structures"].size <= MAX_EXTXYZ_BYTES:
            files["structures"] = EXTXYZ
        with replaced_folder(folder) as new:
            self._write_predictions(new / QUANTILES)
            save_details(new / DETAILS, self._details())
            for name, file in files.items():
                self._table.files[name].end()
                shutil.copyfile(self._table.files[name].path, new / file)

    def _write_predictions(self, path: Path) -> None:
        """Write what `save_predictions` would of all chunks together."""
        first = next(self._lines(), {})
        sizes = [int(line["rows"]) for line in self._lines()]
        metadata: dict[str, Any] = {
            "format": FORMAT,
            "texts": self._texts(),
            "level_of_theory": str(first.get("level_of_theory", "")),
        }
        with self._table.files["numbers"].path.open("rb") as file:
            n = sum(sizes)
            tensors = {
                name: LongTensor(
                    np.dtype(np.float64), (n,) if _WIDTHS[name] == 1 else (_WIDTHS[name], n), _across(file, sizes, name)
                )
                for name in NUMBERS
            }
            if (scores := first.get("conformal")) is not None:
                tensors[SCORES] = LongTensor.of(np.array(scores[1], dtype=np.float64))
                metadata[SCORES] = json.dumps(scores[0])
            write_tensors(path, tensors, metadata=metadata)

    def _texts(self) -> Iterator[str]:
        """Yield the texts of all rows as JSON, piece by piece."""
        for k, name in enumerate(TEXTS):
            yield f'{", " if k else "{"}"{name}": ['
            for at, line in enumerate(self._lines()):
                yield (", " if at else "") + json.dumps(line[name])[1:-1]
            yield "]"
        yield "}"

    def _details(self) -> PredictionDetails:
        """Return the details of all rows: 60 bytes a row, and what is kept of draws, whose size is bounded."""
        sizes = [int(line["rows"]) for line in self._lines()]
        with self._table.files["numbers"].path.open("rb") as file:
            rows = {name: np.frombuffer(b"".join(_across(file, sizes, name))) for name in ROWS}
        kept = np.fromfile(self._table.files["kept"].path).reshape(-1, 2)
        draws = self._table.files["draws"].size // (4 * max(len(kept), 1))
        chosen = chosen_of(len(kept), draws=draws)
        return PredictionDetails(
            nearest=tuple(name for line in self._lines() for name in line["nearest"]),
            n_atoms=rows["n_atoms"].astype(np.int64),
            distance=rows["distance"],
            percentile=rows["percentile"],
            labelled=rows["labelled"] != 0,
            kept=kept[chosen, 0].astype(np.int64),
            means_eV=self._drawn(chosen, draws=draws),
            noise_variance=np.ascontiguousarray(kept[chosen, 1]),
        )

    def _drawn(self, chosen: NDArray[np.int64], *, draws: int) -> NDArray[np.float32]:
        """Return the draws (draw, k) of the chosen ones of the kept structures."""
        found = np.empty((chosen.size, draws), dtype=np.float32)
        with self._table.files["draws"].path.open("rb") as file:
            for k, place in enumerate(chosen.tolist()):
                file.seek(4 * draws * place)
                found[k] = np.frombuffer(file.read(4 * draws), dtype=np.float32)
        return np.ascontiguousarray(found.T)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self._table.files["chunks"].path.open(encoding="utf-8") as file:
            for line in file:
                yield parse_json(line, what=str(self._table.files["chunks"].path))


def _across(file: BinaryIO, sizes: Sequence[int], name: str) -> Iterator[bytes]:
    """Yield the numbers of this name of all rows, those of one level after another; chunks have these sizes."""
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    for number in range(_FIRST[name], _FIRST[name] + _WIDTHS[name]):
        for start, size in zip(starts, sizes, strict=True):
            file.seek(start * _ROW_BYTES + number * size * 8)
            yield file.read(8 * size)
