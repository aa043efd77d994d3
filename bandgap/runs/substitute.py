"""Rows of predictions that another run predicts, for structures that a shipped model refuses."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from bandgap.datasets.shipped_models import shipped_folder
from bandgap.predictions.table import DOMAIN_P, NUMBERS, P_METAL, Predictions
from bandgap.runs.stored import Run, load_run


@cache
def substitute_of(name: str) -> Run:
    """Return the shipped model of this name."""
    return load_run(shipped_folder(name).path, verify=False)


def filled(
    predictions: Predictions, rows: Sequence[int], replacing: Predictions, *, sentence: str
) -> Predictions:
    """Return predictions with other ones of some refused rows, whose problem is the sentence too.

    Rows that are refused again stay as they are.
    """
    values: dict[str, Any] = {
        name: _with_rows(getattr(predictions, name), rows, getattr(replacing, name))
        for name in (*NUMBERS, P_METAL, DOMAIN_P)
    }
    texts: dict[str, list[str]] = {
        name: list(getattr(predictions, name)) for name in ("status", "problem", "domain")
    }
    for i, (row, status) in enumerate(zip(rows, replacing.status, strict=True)):
        if status != "refused":
            problems = (predictions.problem[row], sentence, replacing.problem[i])
            texts["status"][row] = "warning"
            texts["problem"][row] = "; ".join(filter(None, problems))
            texts["domain"][row] = replacing.domain[i]
    values |= {name: tuple(text) for name, text in texts.items()}
    return replace(predictions, **values)


def _with_rows(values: Any, rows: Sequence[int], replacing: Any) -> Any:
    changed = np.array(values)
    changed[..., rows] = replacing
    return changed
