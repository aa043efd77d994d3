"""Results of studies on disk: NAME-SCALE.csv has the rows, .json the statements and facts.

The figure is NAME-SCALE.png. Verdicts are not stored: they are made from rows and statements.
"""

import csv
import json
import math
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bandgap.foundation.machine import cores
from benchmarks.studies.figures import save_figure
from benchmarks.studies.study import SCALES, Part, Result, Row, Statement, Study

FOLDER = Path(__file__).parent / "results"
COLUMNS = tuple(field.name for field in fields(Row))
NUMBERS = ("value", "error", "printed", "printed_error", "printed_unit")


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A result with when, where and from which code it was computed; `seconds` are CPU time."""

    study: str
    scale: str
    seed: int
    date: str
    seconds: float
    machine: str
    versions: str
    commit: str
    result: Result
    figure: Path | None


def save(study: Study, result: Result, *, scale: str, seed: int, folder: Path) -> StoredResult:
    """Write rows, figure and facts of a result; a stored one of the same scale is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    files = files_of(study.name, scale, folder)
    with files["csv"].open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in result.rows:
            writer.writerow([_text(getattr(row, column)) for column in COLUMNS])
    figure = save_figure(result, files["png"])
    facts: dict[str, Any] = {
        "scale": scale,
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": result.seconds,
        "machine": machine(),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "torch")),
        "commit": commit(),
    }
    of_result = {
        "statements": [_facts_of(statement) for statement in result.statements],
        "reasons": dict(result.reasons),
        "incomparable": dict(result.incomparable),
        "notes": list(result.notes),
    }
    text = json.dumps(facts | of_result, indent=2, ensure_ascii=False)
    files["json"].write_text(text + "\n", encoding="utf-8")
    return StoredResult(study=study.name, result=result, figure=figure, **facts)


def load(name: str, scale: str, folder: Path = FOLDER) -> StoredResult | None:
    """Return a stored result, or None if there is none."""
    files = files_of(name, scale, folder)
    if not files["json"].exists():
        return None
    facts = json.loads(files["json"].read_text(encoding="utf-8"))
    with files["csv"].open(encoding="utf-8", newline="") as file:
        rows = [_row(cells) for cells in csv.DictReader(file)]
    result = Result(
        rows=rows,
        statements=[
            Statement(one["text"], [Part(**part) for part in one["parts"]], one["note"])
            for one in facts.pop("statements")
        ],
        **{name: facts.pop(name) for name in ("reasons", "incomparable", "notes")},
    )
    figure = files["png"] if files["png"].exists() else None
    return StoredResult(study=name, result=result, figure=figure, **facts)


def files_of(name: str, scale: str, folder: Path) -> dict[str, Path]:
    """Return the files of a result: csv, json and png."""
    return {ending: folder / f"{name}-{scale}.{ending}" for ending in ("csv", "json", "png")}


def latest(name: str, folder: Path = FOLDER) -> StoredResult | None:
    """Return the stored result of the largest scale, or None."""
    for scale in reversed(SCALES):
        stored = load(name, scale, folder)
        if stored is not None:
            return stored
    return None


def machine() -> str:
    """Return processor and number of usable cores."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    return f"{model[1] if model else processor}, {cores()} cores"


def commit() -> str:
    """Return the commit of the checkout, with " with changes" if the code differs from it."""
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    name = git("rev-parse", "--short=12", "HEAD")
    code = (f"benchmarks/studies/*.{ending}" for ending in ("py", "toml"))
    changes = git("status", "--porcelain", "--", "bandgap", *code)
    return (name or "no repository") + (" with changes" if changes else "")


def _facts_of(statement: Statement) -> dict[str, Any]:
    """Return a statement without the fields of parts that have their default."""
    defaults = asdict(Part(what="", value=math.nan))
    parts = [
        {name: value for name, value in asdict(part).items() if value != defaults[name]}
        for part in statement.parts
    ]
    return {"text": statement.text, "parts": parts, "note": statement.note}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(cells: dict[str, str]) -> Row:
    """Return the row of a line of the CSV file."""
    values: dict[str, Any] = {column: cells[column] for column in COLUMNS}
    values["n_values"] = int(values["n_values"])
    for column in NUMBERS:
        values[column] = float(values[column]) if values[column] else None
    return Row(**values)
