"""Frozen dataclasses of arrays and plain values, as named arrays and JSON, and back.

The name of an array is the path of fields to it, such as `standardiser.x_mean`, `upper.0` in a
tuple and `hidden.weight.1` in a mapping. Plain values are nested by the same fields, without what
is None. A dataclass with a `kind` is stored with it, so that a field may have one of several
classes. Torch is loaded where a class has a field of tensors.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.damage import DAMAGE, MAX_JSON_BYTES, parse_json
from bandgap.storage.arrays import Arrays, damaged_file, load_arrays, save_arrays

T = TypeVar("T")

APART = "diagnostics"  # a field that is not stored here
WORDS = "words"

_type_hints = cache(get_type_hints)


def stored_fields(value: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return copies of the arrays and tensors of a dataclass by name, and its plain values."""
    arrays: Arrays = {}
    return arrays, _plain(value, "", arrays)


def restored_fields(
    cls: type[T],
    arrays: Mapping[str, NDArray[Any]],
    plain: Mapping[str, Any],
    *,
    class_of: Callable[[str], type[Any]] | None = None,
) -> T:
    """Build a dataclass from what `stored_fields` returned.

    A field that is not stored has its default. `class_of` returns the class of a kind, for fields
    whose type is a protocol. Raises ValueError for a tensor of no field, and KeyError for a missing
    part.
    """
    reader = _Reader(arrays, class_of)
    value: T = reader.built(cls, "", plain)
    if unknown := arrays.keys() - reader.used:
        raise ValueError(f"tensor {min(unknown)} is of no part of the model")
    return value


def save_fields(value: Any, path: Path) -> None:
    """Write a dataclass to one file, its plain values as JSON in the bytes of an array."""
    arrays, plain = stored_fields(value)
    words = np.frombuffer(json.dumps(plain).encode(), np.uint8)
    save_arrays({**arrays, WORDS: words}, path)


def load_fields(cls: type[T], path: Path) -> T:
    """Return the dataclass that `save_fields` wrote; raise ArtifactError if the file is damaged."""
    arrays = load_arrays(path)
    try:
        text = arrays.pop(WORDS).tobytes()
        plain = parse_json(text, what=WORDS, max_bytes=MAX_JSON_BYTES)
        return restored_fields(cls, arrays, plain)
    except DAMAGE as error:
        raise damaged_file(path, repr(error)) from error


def _plain(value: Any, path: str, arrays: Arrays) -> Any:
    """Return a value without its arrays, which are added to `arrays`."""
    if _is_tensor(type(value)):
        value = value.numpy(force=True)  # also of a GPU
    if isinstance(value, np.ndarray):
        arrays[path] = np.array(value, order="C")
        return None
    if isinstance(value, tuple):
        entries = [_plain(entry, _under(path, i), arrays) for i, entry in enumerate(value)]
        return entries if any(entry is not None for entry in entries) else None
    if is_dataclass(value):
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.name != APART}
    elif isinstance(value, Mapping):
        parts = dict(value)
    else:
        return value
    plain = {name: _plain(part, _under(path, name), arrays) for name, part in parts.items()}
    kind = {"kind": value.kind} if hasattr(value, "kind") else {}
    return kind | {name: part for name, part in plain.items() if part is not None}


@dataclass(frozen=True, eq=False)
class _Reader:
    arrays: Mapping[str, NDArray[Any]]
    class_of: Callable[[str], type[Any]] | None
    used: set[str] = field(default_factory=set)

    def built(self, cls: Any, path: str, plain: Mapping[str, Any]) -> Any:
        """Return a dataclass whose fields are stored under a path."""
        hints = _type_hints(cls)
        values = {}
        for f in fields(cls):
            place = _under(path, f.name)
            is_stored = f.name in plain or self._names(place)
            has_default = f.default is not MISSING or f.default_factory is not MISSING
            if is_stored or not has_default:
                values[f.name] = self._read(hints[f.name], place, plain.get(f.name))
        return cls(**values)

    def _read(self, hint: Any, path: str, plain: Any) -> Any:
        options = get_args(hint)
        origin = get_origin(hint) or hint
        # NDArray of NumPy 2.5 is an alias by the statement `type`.
        origin = get_origin(getattr(origin, "__value__", None)) or origin
        if origin in (Union, UnionType):
            return self._read(_option(options, plain), path, plain)
        if origin is np.ndarray or _is_tensor(origin):
            self.used.add(path)
            return self.arrays[path] if origin is np.ndarray else _tensor(self.arrays[path])
        if origin is tuple:
            return self._tuple(options, path, plain)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            names = plain or {name.removeprefix(f"{path}.") for name in self._names(path)}
            return {
                name: self._read(options[1], _under(path, name), (plain or {}).get(name))
                for name in names
            }
        if self.class_of is not None and isinstance(plain, Mapping) and not is_dataclass(origin):
            origin = self.class_of(plain["kind"])
        if is_dataclass(origin):
            return self.built(origin, path, plain or {})
        if plain is None:
            raise KeyError(path)
        return plain

    def _tuple(self, hints: tuple[Any, ...], path: str, plain: list[Any] | None) -> tuple[Any, ...]:
        numbers = {name.removeprefix(f"{path}.").split(".")[0] for name in self._names(path)}
        entries = plain or [None] * len(numbers)
        if hints[1:] == (...,):
            if hints[0] in (str, int, float):  # thousands of ids
                return tuple(entries)
            hints = hints[:1] * len(entries)
        return tuple(
            self._read(hint, _under(path, i), entry)
            for i, (hint, entry) in enumerate(zip(hints, entries, strict=True))
        )

    def _names(self, path: str) -> list[str]:
        """Return the names of the tensors at a path and below it."""
        return [name for name in self.arrays if f"{name}.".startswith(f"{path}.")]


def _is_tensor(cls: Any) -> bool:
    return (cls.__module__, cls.__name__) == ("torch", "Tensor")


def _tensor(array: NDArray[Any]) -> Any:
    import torch  # loaded already by the module of the class that has the tensor

    return torch.from_numpy(array)


def _under(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _option(options: tuple[Any, ...], plain: Any) -> Any:
    """Return the type of a union that a stored value has: by its kind, if there are several."""
    types = [option for option in options if option is not type(None)]
    if len(types) == 1:
        return types[0]
    return next(option for option in types if option.kind == plain["kind"])
