"""What a request asks: structures from a file, an upload or JSON, the model, the level and the kind of interval."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from bandgap.datasets.gaps import LARGEST_GAP_EV
from bandgap.foundation.errors import shown
from bandgap.jobs.service.json_text import Json, parse_json
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.structures_json import BASELINE, file_name, records_of_json
from bandgap.structures.formats import optimade
from bandgap.structures.ids import with_unique_ids
from bandgap.structures.reading import stream_structures
from bandgap.structures.records import StructureRecord

T = TypeVar("T")
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


def of_json(
    body: bytes, choice: Choice, *, name: str, baselines: str, limits: ServiceLimits
) -> Question:
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
    pairs = _taken(records_of_json(entries, limits=limits), limits)
    return _question(choice, [record for record, _ in pairs], [value for _, value in pairs])


def of_files(
    files: Sequence[tuple[str, bytes]], choice: Choice, *, baselines: str, limits: ServiceLimits
) -> Question:
    """Return what files ask, each with its name; `baselines` are numbers in eV, one a structure, commas between."""
    if not files:
        raise Refusal(
            422, "The upload holds no file. Send at least one, under any name of a field."
        )
    read = (stream_structures(data, name, limits=limits.of_files) for name, data in files)
    records = _taken((record for found in read for record in found), limits)
    given: list[float | None] = [*_numbers(baselines)] if baselines else [None] * len(records)
    if len(given) != len(records):
        raise Refusal(
            422,
            f"{BASELINE} holds {len(given)} numbers for {len(records)} structures. One each is needed.",
        )
    return _question(choice, records, given)


def name_of_body(given: str, content_type: str) -> str:
    """Return the name that a bare body has: the one that the address gives, else one after its type."""
    return file_name(given, default="structure" + _SUFFIXES.get(content_type, ""))


def _taken(read: Iterable[T], limits: ServiceLimits) -> list[T]:
    """Return what is read of every structure; raises Refusal at the limit of structures (413) or of time (503).

    Nothing behind the limit is read: who asked has heard of the time by then, and others wait for this thread.
    """
    until = time.monotonic() + limits.seconds
    found: list[T] = []
    for one in read:
        found.append(one)
        if len(found) > limits.max_structures:
            many = f"More than {limits.max_structures:,} structures in one request, the limit."
            raise Refusal(413, f"{many} Send them in several requests.")
        if time.monotonic() >= until:
            raise Refusal(
                503,
                f"The structures were not read within {limits.seconds:g} s. Send fewer at once.",
            )
    return found


def _question(
    choice: Choice, records: list[StructureRecord], baselines: list[float | None]
) -> Question:
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
        raise Refusal(
            422, f"The body has the field {shown(unknown[0])}. Accepted: {', '.join(FIELDS)}."
        )
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
            raise Refusal(
                422,
                f"{BASELINE} holds {shown(word)}. Accepted: finite numbers in eV with commas between.",
            )
        yield value
