"""What damaged files raise when they are read, and JSON text read with one typed error.

JSON that is nested too deeply raises RecursionError, bytes that are no UTF-8 UnicodeDecodeError, and a
number such as 1e999 OverflowError where it becomes an integer. Readers of stored and uploaded files
catch `DAMAGE`, and say what to do in a typed error of their own.
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
    """Text that is not JSON; a ValueError too, as of `json.loads`, for callers that add a remedy."""


def parse_json(text: str | bytes, *, what: str) -> Any:
    """Return the value of a JSON text (UTF-8 where it is bytes).

    Raises JsonError, which begins with `what` was read, where it is not JSON, not UTF-8, or nested
    more deeply than can be read.
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
