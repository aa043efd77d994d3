"""JSON as a stranger may send it: every number finite, no key twice, and each refusal a sentence with its place."""

import json
import math
from collections import Counter
from typing import Any

from bandgap.foundation.errors import shown
from bandgap.foundation.json_nesting import MAX_NESTING, nesting_depth
from bandgap.jobs.service.limits import Refusal

Json = Any
MOST_DIGITS = 300  # of a whole number, as a float holds no more


def parse_json(data: bytes) -> Json:
    """Return what JSON text means; raises Refusal (400) where it is none, or holds a number that is not finite."""
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
            parse_int=_whole,
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
        raise Refusal(400, f"The JSON holds the number {shown(text)}, which is not finite.")
    return value


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise Refusal(400, "The JSON holds a number of too many digits to be read.")
    return int(text)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise Refusal(400, f"The JSON has the key {shown(twice)} twice in one object.")
    return found
