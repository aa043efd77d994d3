"""Figures of a measurement that was repeated: medians, place by place."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any


def medians(values: Sequence[Any]) -> Any:
    """Return the median of every number of equally built mappings, lists and numbers; what is equal in all stays.

    >>> medians([{"a": 1.0, "each": [3.0, 5.0]}, {"a": 3.0, "each": [4.0, 4.0]}, {"a": 2.0, "each": [9.0, 6.0]}])
    {'a': 2.0, 'each': [4.0, 5.0]}

    What only some hold is the median of those.
    """
    first = values[0]
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for one in values for name in one)
        return {name: medians([one[name] for one in values if name in one]) for name in names}
    if isinstance(first, list | tuple):
        return [medians(places) for places in zip(*values, strict=True)]
    return first if all(one == first for one in values) else median(values)
