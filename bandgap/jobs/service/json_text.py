"""Parse JSON from clients strictly: finite numbers, no repeated key, errors with their place."""

import json
import math
from collections import Counter
from typing import Any

from bandgap.foundation.errors import quoted
from bandgap.foundation.json_nesting import MAX_NESTING, nesting_depth
from bandgap.jobs.service.limits import Refusal

Json = Any
MAX_DIGITS = 300  # of an integer, as no float has more


def parse_json(data: bytes) -> Json:
    """Return the value of a JSON text.

    Raises Refusal (400) where the text is not JSON, is nested too deep, repeats a key or contains a
    number that is not finite.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refusal(400, "The body is not JSON: it is not UTF-8 text.") from None
    if nesting_depth(text) > MAX_NESTING:
        raise Refusal(400, "The JSON is nested too deep to be structures.")
    try:
        return json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Refusal(400, f"The body is not JSON: {where}: {error.msg}.") from None


def _no_constant(name: str) -> float:
    raise Refusal(
        400, f"The JSON holds {name}. Accepted: finite numbers; leave out what is not known."
    )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Refusal(400, f"The JSON holds the number {quoted(text)}, which is not finite.")
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise Refusal(400, "The JSON holds a number of too many digits to be read.")
    return int(text)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((repeated_key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise Refusal(400, f"The JSON has the key {quoted(repeated_key)} twice in one object.")
    return values
