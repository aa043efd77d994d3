"""Exceptions that damaged files cause when they are read, and JSON text read with one error type.

JSON that is nested too deeply raises RecursionError, bytes that are no UTF-8 UnicodeDecodeError,
and a number such as 1e999 OverflowError when it becomes an integer. Readers of stored and uploaded
files catch `DAMAGE` and raise an error of their own that says what to do.
"""

import json
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


class JsonError(ArtifactError, ValueError):
    """Text that is not JSON; also a ValueError, as of `json.loads`."""


def parse_json(text: str | bytes, *, what: str) -> Any:
    """Return the value of a JSON text (UTF-8 if it is bytes).

    Raises JsonError, whose text starts with `what`, if it is not JSON, not UTF-8, or nested too
    deeply.
    """
    try:
        return json.loads(text)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text: byte {error.start:,} is {error.object[error.start]:#04x}"
    except ValueError as error:
        reason = f"not JSON: {error}"
    except RecursionError:
        reason = "JSON that is nested too deeply to be read"
    raise JsonError(f"{what}: {reason}. The file is damaged or cut off; make it again.")


def read_json(path: Path) -> Any:
    """Return the value of a JSON file. Raises JsonError as `parse_json`, and OSError."""
    return parse_json(path.read_bytes(), what=str(path))
