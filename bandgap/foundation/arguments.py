"""Check the arguments of public functions whose types Python does not check."""

import numbers
import os
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

T = TypeVar("T")


def as_folder(value: object, *, name: str) -> Path:
    """Return the path of a folder; raise InputError if the value is not a path."""
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        return Path(value)
    raise InputError(f"{name}: found {described(value)}. Accepted: the path of a folder.")


def as_path(value: object, *, name: str) -> Path:
    """Return the path of a file or folder; raise InputError if the value is not a path."""
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        return Path(value)
    raise InputError(f"{name}: found {described(value)}. Accepted: the path of a file or folder.")


def check_count(value: object, *, name: str) -> int:
    """Return a whole number from 1 as an integer; raise InputError for another value."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1:
        return int(value)
    raise InputError(f"{name}: found {described(value)}. Accepted: a whole number from 1.")


def check_type(value: object, accepted: type[T], *, name: str) -> T:
    """Return the value; raise InputError if it has another type."""
    if isinstance(value, accepted):
        return value
    raise InputError(f"{name}: found {described(value)}. Accepted: a bandgap.{accepted.__name__}.")


def as_numbers(values: object, *, name: str) -> NDArray[np.float64]:
    """Return numbers as an array (n,); raise InputError if they are not a list of numbers."""
    accepted = "Accepted: one number in eV for each structure, an array of shape (n,)."
    try:
        input_array = np.asarray(values)
        # Texts, flags and complex numbers would be converted without an error.
        is_number = input_array.dtype.kind in "iuf" or (
            input_array.dtype.kind == "O" and not _has_texts_or_flags(input_array)
        )
        array = np.asarray(input_array, dtype=np.float64) if is_number else None
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise InputError(f"{name}: found {described(_first_without_number(values))}. {accepted}")
    if array.ndim != 1:
        raise InputError(f"{name}: found an array of shape {array.shape}. {accepted}")
    return array


def described(value: object) -> str:
    """Return a short description of a value for a message.

    Examples
    --------
    >>> described(2.5), described(None), described({})
    ('2.5', 'None', 'an object of type dict')
    """
    if value is None or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    return f"an object of type {type(value).__name__}"


def _has_texts_or_flags(values: NDArray[Any]) -> bool:
    return any(isinstance(value, (str, bytes, bool, np.bool_)) for value in values.ravel())


def _first_without_number(values: object) -> object:
    """Return the first item that is not a number, or all values if they are no list."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        return values
    for value in values:
        if isinstance(value, (str, bytes, bool)) or not isinstance(value, (int, float, np.number)):
            return value.item() if isinstance(value, np.generic) else value
    return values
