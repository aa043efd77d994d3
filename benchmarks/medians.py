"""Medians of the figures of repeated measurements."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any


def medians(values: Sequence[Any]) -> Any:
    """Return the medians of numbers in mappings and lists of the same structure.

    A value that is equal in all is returned as it is. If only some mappings have a key, the median
    is that of these.

    >>> medians([{"a": 1.0, "b": [3, 5]}, {"a": 3.0, "b": [4, 4]}, {"a": 2.0, "b": [9, 6]}])
    {'a': 2.0, 'b': [4, 5]}
    """
    first = values[0]
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for one in values for name in one)
        return {name: medians([one[name] for one in values if name in one]) for name in names}
    if isinstance(first, list | tuple):
        return [medians(places) for places in zip(*values, strict=True)]
    return first if all(one == first for one in values) else median(values)
