"""Requests: structures from a file, an upload or JSON, with model, level and kind of interval."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query

from bandgap.foundation.errors import quoted
from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.structures.checks import to_record
from bandgap.structures.draft import LARGEST_NUMBER, Unreadable, refused_draft
from bandgap.structures.formats.json_structures import read_entry
from bandgap.structures.formats.json_values import parse_json
from bandgap.structures.ids import with_unique_ids
from bandgap.structures.records import StructureRecord
from bandgap.structures.uploads import read_upload

T = TypeVar("T")
BASELINE: Final = "baseline_eV"
_NEVER = threading.Event()
_LONGEST = 200  # characters of a name
_SUFFIXES = {"chemical/x-cif": ".cif", "chemical/x-xyz": ".xyz", "chemical/x-pdb": ".pdb"}


@dataclass(frozen=True)
class RequestOptions:
    """Model, level, kind of interval, target window and changed intervals of a request.

    "" and None are the service's defaults; "" is no window. All but the model are fields of
    `PredictRequest`. They are the names of the address and, beside the structures, of the body.
    """

    model: Annotated[str, Query(description="A name of GET /models; default: its first.")] = ""
    level: Annotated[
        float | None, Query(description="Of the interval, 0.01 to 0.99; default 0.95.")
    ] = None
    interval: Annotated[str, Query(description="prediction (default), credible or conformal.")] = ""
    window: Annotated[
        str,
        Query(description="Target window of the gap in eV, such as 1.3:1.7: adds p_window."),
    ] = ""
    withhold_below_p: Annotated[
        float | None,
        Query(description="No interval for structures with a smaller domain_p; default never."),
    ] = None
    widen_below_p: Annotated[
        float | None,
        Query(description="Wider interval for structures with a smaller domain_p."),
    ] = None
    widen_factor: Annotated[
        float | None, Query(description="Factor of the wider intervals; default 2.")
    ] = None


OPTIONS: Final = tuple(field.name for field in fields(RequestOptions))
NUMBERS: Final = tuple(field.name for field in fields(RequestOptions) if field.default is None)


@dataclass(frozen=True, eq=False)
class PredictionRequest:
    """Checked structures, including refused ones, and the baseline in eV of each."""

    options: RequestOptions
    records: list[StructureRecord]
    baselines_eV: list[float | None]


def request_from_json(
    body: bytes,
    options: RequestOptions,
    *,
    name: str,
    baselines: str,
    limits: ServiceLimits,
    abandoned: threading.Event = _NEVER,
) -> PredictionRequest:
    """Return the request of a JSON body.

    That is an object with "structures" and options, or JSON that a file may contain. Its structures
    may be files too ("content" and "name"), and have a baseline. Reading stops once `abandoned` is
    set, as no client waits any more.
    """
    value = _parsed(body)
    entries = value if isinstance(value, list) else [value]
    is_request = any(isinstance(e, dict) and {"content", BASELINE} & e.keys() for e in entries)
    if isinstance(value, dict) and "structures" in value:
        is_request = True
        entries = value["structures"]
        options = _with_fields(value, options)
    if not is_request:
        files = [(file_name(name, default="structure.json"), body)]
        return request_from_files(
            files, options, baselines=baselines, limits=limits, abandoned=abandoned
        )
    if not isinstance(entries, list) or not entries:
        raise Refusal(422, '"structures" must be a list of at least one structure.')
    pairs = _read_within_limits(_read_entries(entries, limits), limits, abandoned)
    values = [value for _, value in pairs]
    return _checked_request(options, [record for record, _ in pairs], values, baselines)


def request_from_files(
    files: Sequence[tuple[str, bytes]],
    options: RequestOptions,
    *,
    baselines: str,
    limits: ServiceLimits,
    abandoned: threading.Event = _NEVER,
) -> PredictionRequest:
    """Return the request of named files.

    `baselines` are numbers in eV separated by commas, one for each structure; empty for none.
    Reading stops once `abandoned` is set.
    """
    if not files:
        raise Refusal(
            422, "The upload holds no file. Send at least one, under any name of a field."
        )
    streams = (read_upload(data, name, limits=limits.reading_limits) for name, data in files)
    records = _read_within_limits(
        (record for stream in streams for record in stream), limits, abandoned
    )
    return _checked_request(options, records, [None] * len(records), baselines)


def body_file_name(name: str, content_type: str) -> str:
    """Return the file name of a body: the one in the address, else one by its content type."""
    return file_name(name, default="structure" + _SUFFIXES.get(content_type, ""))


def file_name(name: str, *, default: str) -> str:
    """Return the name of a sent file; raises Refusal where it is a path out of its folder."""
    if problem := _problem_of_name(name):
        raise Refusal(422, problem)
    return name or default


def _problem_of_name(name: str) -> str:
    """Return why a name is not accepted, "" if it is, or is empty."""
    parts = name.replace("\\", "/").split("/")
    is_path = ".." in parts or ":" in parts[0] or (parts[0] == "" and name)
    if name.isprintable() and len(name) <= _LONGEST and not is_path:
        return ""
    return (
        f"{quoted(name)} is not accepted as a file's name. Send a plain name such as benzene.cif,"
        " no path."
    )


def _parsed(body: bytes) -> Any:
    """Return the value of a JSON body. Raises Refusal (400) where it is none, or repeats a key."""
    try:
        return parse_json(body.decode(json.detect_encoding(body)), object_of=_without_repeats)
    except UnicodeDecodeError:
        raise Refusal(400, "The body is not JSON: it is not UTF-8 text.") from None
    except Unreadable as error:
        raise Refusal(400, f"The body is {error}.") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((repeated_key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise Refusal(400, f"The JSON has the key {quoted(repeated_key)} twice in one object.")
    return values


def _read_entries(
    entries: list[Any], limits: ServiceLimits
) -> Iterator[tuple[StructureRecord, float | None]]:
    """Yield the records of every entry of a request with its baseline; a bad one is refused."""
    reading = limits.reading_limits
    for number, entry in enumerate(entries, start=1):
        fields = entry if isinstance(entry, dict) else {}
        name = str(fields.get("name") or fields.get("file") or "")
        problem = _problem_of_name(name)
        file = f"structure-{number}" if problem or not name else name
        baseline = None
        records: Iterable[StructureRecord]
        try:
            baseline = _baseline(fields.get(BASELINE))
            if "content" in fields:
                content = _content(fields["content"], problem)
                records = read_upload(content, file, limits=reading)
            else:
                draft = read_entry(entry, limits=reading)
                id = draft.id or file.rpartition("/")[2]
                records = [to_record(draft, file=file, id=id, limits=reading)]
        except Unreadable as error:
            records = [to_record(refused_draft(str(error)), file=file, id=file, limits=reading)]
        for count, record in enumerate(records):
            if baseline is not None and count:
                raise Refusal(
                    422,
                    f"structure {number} holds several structures and one {BASELINE}. "
                    "Send them one by one.",
                )
            yield record, baseline


def _content(content: object, problem: str) -> bytes:
    if problem or not isinstance(content, str):
        raise Unreadable(problem or "content must be the text of a file")
    # "replace", as JSON may contain halves of characters (surrogates)
    return content.encode(errors="replace")


def _baseline(value: Any) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= LARGEST_GAP_EV:
        raise Unreadable(_baseline_text(str(value)))
    return float(value)


def _baseline_text(value: str) -> str:
    return (
        f"{BASELINE} is {quoted(value)}, which is no band gap. Accepted: 0 to {LARGEST_GAP_EV:g};"
        " is the unit eV?"
    )


def _read_within_limits(
    structures: Iterable[T], limits: ServiceLimits, abandoned: threading.Event
) -> list[T]:
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
        if abandoned.is_set() or time.monotonic() >= deadline:
            raise Refusal(
                503,
                f"The structures were not read within {limits.seconds:g} s. Send fewer at once.",
            )
    return read


def _checked_request(
    options: RequestOptions,
    records: list[StructureRecord],
    values: list[float | None],
    baselines: str,
) -> PredictionRequest:
    """Return the request of records; baselines of the address replace the values."""
    if baselines:
        values = [_number(word) for word in baselines.split(",")]
    if len(values) != len(records):
        raise Refusal(
            422,
            f"{BASELINE} holds {len(values)} numbers for {len(records)} structures. "
            "One each is needed.",
        )
    return PredictionRequest(options, with_unique_ids(records), values)


def _with_fields(body: Mapping[str, Any], options: RequestOptions) -> RequestOptions:
    unknown = sorted(set(body) - {"structures", *OPTIONS})
    if unknown:
        accepted = ", ".join(["structures", *OPTIONS])
        raise Refusal(422, f"The body has the field {quoted(unknown[0])}. Accepted: {accepted}.")
    for name in OPTIONS:
        value = body.get(name)
        if value is None:
            continue
        if getattr(options, name) not in ("", None):
            raise Refusal(422, f"{name} is in the address and in the body. Give it once.")
        is_number = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) <= LARGEST_NUMBER
        )
        if not (is_number if name in NUMBERS else isinstance(value, str)):
            accepted = "a number such as 0.95" if name in NUMBERS else "text"
            raise Refusal(422, f"{name} is {quoted(str(value))}. Accepted: {accepted}.")
        options = replace(options, **{name: value})
    return options


def _number(text: str) -> float | None:
    """Return a baseline of the address. Raises Refusal for another text."""
    try:
        return _baseline(float(text))
    except (ValueError, Unreadable):
        raise Refusal(422, _baseline_text(text)) from None
