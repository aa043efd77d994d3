"""Exceptions that damaged files cause when they are read, and JSON text read with one error type.

Bytes that are no UTF-8 raise UnicodeDecodeError, and a number such as 1e999 OverflowError when it
becomes an integer. The depth of nested lists and objects is known before a parser recurses into
them: at the end of the interpreter's stack, not only RecursionError is raised, as the garbage
collector can run there, and every destructor that it calls then fails. Readers of stored and
uploaded files catch `DAMAGE` and raise an error of their own that says what to do.
"""

import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError

from bandgap.foundation.errors import ArtifactError

DAMAGE: Final = (
    OSError,
    EOFError,
    ValueError,  # UnicodeDecodeError and JSONDecodeError included
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # RecursionError included
    MemoryError,
    SafetensorError,
    zlib.error,
)

# Lists and objects inside each other; structures need about ten.
MAX_NESTING: Final = 100
# Parsed, lists and objects may take 45 times as much memory.
MAX_JSON_BYTES: Final = 20_000_000

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[{]+|[\]}]+")


class JsonError(ArtifactError, ValueError):
    """Text that is not JSON; also a ValueError, as of `json.loads`."""


def parse_json(text: str | bytes, *, what: str, max_bytes: int = sys.maxsize) -> Any:
    """Return the value of a JSON text (UTF-8 if it is bytes).

    Raises JsonError, whose text starts with `what`, if it is larger than `max_bytes`, not JSON, not
    UTF-8, or nested too deeply.
    """
    try:
        if len(text) > max_bytes:
            raise ValueError(f"more than {max_bytes / 1e6:.0f} MB")
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        if not is_too_deep(text):
            return json.loads(text)
        reason = "JSON that is nested too deeply to be read"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text: byte {error.start:,} is {error.object[error.start]:#04x}"
    except ValueError as error:
        reason = f"not JSON: {error}"
    raise JsonError(f"{what}: {reason}. The file is damaged or cut off; make it again.")


def read_json(path: Path) -> Any:
    """Return the value of a JSON file of at most `MAX_JSON_BYTES`.

    Raises JsonError as `parse_json`, and OSError.
    """
    with path.open("rb") as file:
        text = file.read(MAX_JSON_BYTES + 1)
    return parse_json(text, what=str(path), max_bytes=MAX_JSON_BYTES)


def is_too_deep(text: str) -> bool:
    """Return whether lists and objects of JSON text are nested deeper than `MAX_NESTING`."""
    return text.count("[") + text.count("{") > MAX_NESTING < nesting_depth(text)


def nesting_depth(text: str) -> int:
    """Return the largest number of lists and objects of JSON text that are open together.

    Brackets inside strings do not count. The text need not be valid JSON: the depth of invalid text
    up to its first error is at most the returned value.
    """
    depth = 0
    deepest = 0
    for brackets in _BRACKETS.findall(_STRING.sub("", text)):
        if brackets[0] in "[{":
            depth += len(brackets)
            deepest = max(deepest, depth)
        else:
            depth -= len(brackets)
    return deepest
