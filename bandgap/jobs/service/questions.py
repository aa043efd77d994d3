"""What a request asks: structures from a file, an upload or JSON, the model, the level and the kind of interval."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bandgap.datasets.gaps import LARGEST_GAP_EV
from bandgap.foundation.errors import shown
from bandgap.jobs.service.json_text import Json, parse_json
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.structures_json import BASELINE, file_name, records_of_json
from bandgap.structures.formats import optimade
from bandgap.structures.reading import read_structures, with_unique_ids
from bandgap.structures.records import StructureRecord

FIELDS: Final = ("structures", "model", "level", "interval")
_SUFFIXES = {"chemical/x-cif": ".cif", "chemical/x-xyz": ".xyz", "chemical/x-pdb": ".pdb"}


@dataclass(frozen=True)
class Choice:
    """What is asked of the structures; "" and None stand for the service's defaults."""

    model: str = ""
    level: float | None = None
    interval: str = ""


@dataclass(frozen=True, eq=False)
class Question:
    """Checked structures, refused ones included, with the baseline in eV that a request gives beside them."""

    choice: Choice
    records: list[StructureRecord]
    baselines_eV: list[float | None]


def of_json(body: bytes, choice: Choice, *, name: str, baselines: str, limits: ServiceLimits) -> Question:
    """Return what a JSON body asks: an object with "structures", a list of structures, or one structure.

    A response of OPTIMADE is told by its content, and read as the file that it is: `name` and `baselines` are for it.
    """
    value = parse_json(body)
    if isinstance(value, dict) and "data" in value and optimade.MARK.encode() in body:
        files = [(file_name(name, default="structure.json"), body)]
        return of_files(files, choice, baselines=baselines, limits=limits)
    entries = value if isinstance(value, list) else [value]
    if isinstance(value, dict) and "structures" in value:
        entries, choice = value["structures"], _with_fields(value, choice)
    records: list[StructureRecord] = []
    given: list[float | None] = []
    for record, value in records_of_json(entries, limits=limits):
        records.append(record)
        given.append(value)
        _check_count(len(records), limits)
    return _question(choice, records, given)


def of_files(files: Sequence[tuple[str, bytes]], choice: Choice, *, baselines: str, limits: ServiceLimits) -> Question:
    """Return what files ask, each with its name; `baselines` are numbers in eV, one a structure, commas between."""
    if not files:
        raise Refusal(422, "The upload holds no file. Send at least one, under any name of a field.")
    records: list[StructureRecord] = []
    for name, data in files:
        records += read_structures(data, name, limits=limits.of_files)
        _check_count(len(records), limits)
    given: list[float | None] = [*_numbers(baselines)] if baselines else [None] * len(records)
    if len(given) != len(records):
        raise Refusal(422, f"{BASELINE} holds {len(given)} numbers for {len(records)} structures. One each is needed.")
    return _question(choice, records, given)


def name_of_body(given: str, content_type: str) -> str:
    """Return the name that a bare body has: the one that the address gives, else one after its type."""
    return file_name(given, default="structure" + _SUFFIXES.get(content_type, ""))


def _check_count(count: int, limits: ServiceLimits) -> None:
    """Raise Refusal (413) over the limit of structures; asked while they are read, so that no more are."""
    if count > limits.max_structures:
        raise Refusal(
            413,
            f"More than {limits.max_structures:,} structures in one request, the limit. Send them in several requests.",
        )


def _question(choice: Choice, records: list[StructureRecord], baselines: list[float | None]) -> Question:
    for value in baselines:
        if value is not None and not 0 <= value <= LARGEST_GAP_EV:
            raise Refusal(
                422,
                f"{BASELINE} is {value:g}, which is no band gap. Accepted: 0 to {LARGEST_GAP_EV:g}; is the unit eV?",
            )
    return Question(choice, with_unique_ids(records), baselines)


def _with_fields(body: Mapping[str, Json], choice: Choice) -> Choice:
    unknown = sorted(set(body) - set(FIELDS))
    if unknown:
        raise Refusal(422, f"The body has the field {shown(unknown[0])}. Accepted: {', '.join(FIELDS)}.")
    for name in FIELDS[1:]:
        value = body.get(name)
        if value is None:
            continue
        if getattr(choice, name) not in ("", None):
            raise Refusal(422, f"{name} stands in the address and in the body. Give it once.")
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (number if name == "level" else isinstance(value, str)):
            accepted = "a number such as 0.95" if name == "level" else "text"
            raise Refusal(422, f"{name} is {shown(str(value))}. Accepted: {accepted}.")
        choice = replace(choice, **{name: value})
    return choice


def _numbers(text: str) -> Iterator[float]:
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise Refusal(422, f"{BASELINE} holds {shown(word)}. Accepted: finite numbers in eV with commas between.")
        yield value
