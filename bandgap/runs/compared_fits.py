"""Fits of a comparison: one line of a file for each, read again to go on, and their means over splits."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.json_lines import append_line, read_lines


@dataclass(frozen=True)
class ComparedFit:
    """One method on one split: figures on the test rows, seconds of the fit, warnings.

    `tested_on` is a fingerprint of the test rows where they are not drawn from all labelled structures, else "".
    `failed` says why there is no fit and no figure, "" where there is one. `made_of` holds what else the figures depend
    on, by name, where the file's reader compares it; lines of earlier versions have none.
    """

    method: str
    n: int
    seed: int
    figures: Mapping[str, float]
    seconds: float
    head: str = ""
    warnings: tuple[str, ...] = ()
    conformal_share: float = 0.0
    tested_on: str = ""
    failed: str = ""
    made_of: Mapping[str, Any] = field(default_factory=dict)


def fit_key(fit: ComparedFit) -> tuple[str, int, int, float, str]:
    """Return what a fit is a fit of: method, size, seed, share held back, and what it was tested on."""
    return fit.method, fit.n, fit.seed, fit.conformal_share, fit.tested_on


def summary(fits: Sequence[ComparedFit], figure: str) -> dict[str, dict[int, tuple[float, float]]]:
    """Return mean and standard error of a figure over the seeds with a fit, by method and size.

    NaN where it was not computed.
    """
    result: dict[str, dict[int, tuple[float, float]]] = {}
    fitted = [fit for fit in fits if not fit.failed]
    for name in dict.fromkeys(fit.method for fit in fits):
        for n in sorted({fit.n for fit in fits}):
            values = np.array([f.figures.get(figure, np.nan) for f in fitted if (f.method, f.n) == (name, n)])
            mean = float(values.mean()) if values.size else float("nan")
            error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
            result.setdefault(name, {})[n] = (mean, error)
    return result


def append_fit(path: Path, fit: ComparedFit) -> None:
    """Add a fit to a file of JSON lines."""
    append_line(path, asdict(fit))


def read_fits(path: Path) -> list[ComparedFit]:
    """Return the fits of a file of JSON lines, none where there is no file; raises InputError on a damaged line.

    Those that failed are left out, to be tried again.
    """
    return [fit for fit in read_lines(path, _fit_of_line, what="compared fit") if not fit.failed]


def _fit_of_line(values: dict[str, Any]) -> ComparedFit:
    return ComparedFit(**{**values, "warnings": tuple(values["warnings"])})
