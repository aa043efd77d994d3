"""Requests: structures from a file, an upload or JSON, with model, level and kind of interval."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from bandgap.foundation.errors import quoted
from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.jobs.service.json_text import Json, parse_json
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.structures_json import BASELINE, file_name, records_of_json
from bandgap.structures.formats import optimade
from bandgap.structures.ids import with_unique_ids
from bandgap.structures.reading import stream_structures
from bandgap.structures.records import StructureRecord

T = TypeVar("T")
# Fields of a request, of which the first is not an option.
NUMBERS: Final = ("level", "withhold_below_p", "widen_below_p", "widen_factor")
FIELDS: Final = ("structures", "model", "level", "interval", "window", *NUMBERS[1:])
_SUFFIXES = {"chemical/x-cif": ".cif", "chemical/x-xyz": ".xyz", "chemical/x-pdb": ".pdb"}


@dataclass(frozen=True)
class RequestOptions:
    """Model, level, kind of interval, target window and changed intervals of a request.

    "" and None are the service's defaults; "" is no window. The last three are those of
    `PredictRequest`.
    """

    model: str = ""
    level: float | None = None
    interval: str = ""
    window: str = ""
    withhold_below_p: float | None = None
    widen_below_p: float | None = None
    widen_factor: float | None = None


@dataclass(frozen=True, eq=False)
class PredictionRequest:
    """Checked structures, including refused ones, and the baseline in eV of each."""

    options: RequestOptions
    records: list[StructureRecord]
    baselines_eV: list[float | None]


def request_from_json(
    body: bytes, options: RequestOptions, *, name: str, baselines: str, limits: ServiceLimits
) -> PredictionRequest:
    """Return the request of a JSON body: an object with "structures", a list, or one structure.

    A response of OPTIMADE is recognised by its content and read as a file; `name` and `baselines`
    are for it.
    """
    value = parse_json(body)
    if isinstance(value, dict) and "data" in value and optimade.MARK.encode() in body:
        files = [(file_name(name, default="structure.json"), body)]
        return request_from_files(files, options, baselines=baselines, limits=limits)
    entries = value if isinstance(value, list) else [value]
    if isinstance(value, dict) and "structures" in value:
        entries = value["structures"]
        options = _with_fields(value, options)
    pairs = _read_within_limits(records_of_json(entries, limits=limits), limits)
    return _checked_request(options, [record for record, _ in pairs], [value for _, value in pairs])


def request_from_files(
    files: Sequence[tuple[str, bytes]],
    options: RequestOptions,
    *,
    baselines: str,
    limits: ServiceLimits,
) -> PredictionRequest:
    """Return the request of named files.

    `baselines` are numbers in eV separated by commas, one for each structure; empty for none.
    """
    if not files:
        raise Refusal(
            422, "The upload holds no file. Send at least one, under any name of a field."
        )
    streams = (stream_structures(data, name, limits=limits.reading_limits) for name, data in files)
    records = _read_within_limits((record for stream in streams for record in stream), limits)
    baselines_eV: list[float | None] = [None] * len(records)
    if baselines:
        baselines_eV = list(_numbers(baselines))
    if len(baselines_eV) != len(records):
        raise Refusal(
            422,
            f"{BASELINE} holds {len(baselines_eV)} numbers for {len(records)} structures. "
            "One each is needed.",
        )
    return _checked_request(options, records, baselines_eV)


def body_file_name(name: str, content_type: str) -> str:
    """Return the file name of a body: the one in the address, else one by its content type."""
    return file_name(name, default="structure" + _SUFFIXES.get(content_type, ""))


def _read_within_limits(structures: Iterable[T], limits: ServiceLimits) -> list[T]:
    """Return the structures; raises Refusal at the limit of their number (413) or of time (503).

    Nothing after the limit is read: the client has had its answer by then, and others wait.
    """
    deadline = time.monotonic() + limits.seconds
    read: list[T] = []
    for structure in structures:
        read.append(structure)
        if len(read) > limits.max_structures:
            raise Refusal(
                413,
                f"More than {limits.max_structures:,} structures in one request, the limit. "
                "Send them in several requests.",
            )
        if time.monotonic() >= deadline:
            raise Refusal(
                503,
                f"The structures were not read within {limits.seconds:g} s. Send fewer at once.",
            )
    return read


def _checked_request(
    options: RequestOptions, records: list[StructureRecord], baselines: list[float | None]
) -> PredictionRequest:
    for value in baselines:
        if value is not None and not 0 <= value <= LARGEST_GAP_EV:
            raise Refusal(
                422,
                f"{BASELINE} is {value:g}, which is no band gap. Accepted: 0 to "
                f"{LARGEST_GAP_EV:g}; is the unit eV?",
            )
    return PredictionRequest(options, with_unique_ids(records), baselines)


def _with_fields(body: Mapping[str, Json], options: RequestOptions) -> RequestOptions:
    unknown = sorted(set(body) - set(FIELDS))
    if unknown:
        raise Refusal(
            422, f"The body has the field {quoted(unknown[0])}. Accepted: {', '.join(FIELDS)}."
        )
    for name in FIELDS[1:]:
        value = body.get(name)
        if value is None:
            continue
        if getattr(options, name) not in ("", None):
            raise Refusal(422, f"{name} is in the address and in the body. Give it once.")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number if name in NUMBERS else isinstance(value, str)):
            accepted = "a number such as 0.95" if name in NUMBERS else "text"
            raise Refusal(422, f"{name} is {quoted(str(value))}. Accepted: {accepted}.")
        options = replace(options, **{name: value})
    return options


def _numbers(text: str) -> Iterator[float]:
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise Refusal(
                422,
                f"{BASELINE} holds {quoted(word)}. Accepted: finite numbers in "
                "eV with commas between.",
            )
        yield value
