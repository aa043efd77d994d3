"""Fits of a comparison: one line of a file for each, reuse, and means over splits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from bandgap.foundation.json_lines import append_line, read_lines

DIFFERENCES: Final[Mapping[str, str]] = {
    "data": "other data",
    "n_test": "another number of test structures",
    "descriptor": "another descriptor",
    "source": "another source",
    "head": "another set of the source",
    "settings": "other settings",
    "by_formula": "another grouping of the split",
    "version": "another version of bandgap",
}
"""Differences between a stored fit and a requested one, by the name in `ComparedFit.made_of`."""

SHARED_FACTS: Final = ("data", "n_test", "source", "head", "by_formula", "version")
"""Facts that fits of different methods have in common."""

Facts = Mapping[str, Any]
FitKey = tuple[str, int, int, float, str]


@dataclass(frozen=True)
class ComparedFit:
    """One method on one split: figures on the test rows, seconds of the fit, warnings.

    `tested_on` is a fingerprint of the candidates for test rows where they are not all labelled
    structures, else "". `failed` is the reason why there is no fit, else "". `made_of` are the
    other inputs that the figures depend on, by name.
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
    made_of: Mapping[str, Any] = field(kw_only=True)


def fit_key(fit: ComparedFit) -> FitKey:
    """Return the method, size, seed, share held back and candidates for test rows of a fit."""
    return fit.method, fit.n, fit.seed, fit.conformal_share, fit.tested_on


def reusable_fits(fits: Iterable[ComparedFit], facts: Mapping[str, Facts]) -> list[ComparedFit]:
    """Return the stored fits with the same inputs as the requested ones, the last one of every key.

    `facts` are the present inputs of each requested method. Fits of other methods are reusable
    where data, test rows, source and version are the same as those of a requested method.
    """
    last_fit = {fit_key(fit): fit for fit in fits if _is_reusable(fit, facts)}
    return list(last_fit.values())


def recomputed_sentence(
    fits: Iterable[ComparedFit], facts: Mapping[str, Facts], *, where: Path | str
) -> str:
    """Return one sentence on how many stored fits are not reused and why, "" where there are none.

    Fits that were recomputed since are not counted.
    """
    stored = list(fits)
    current_keys = {fit_key(fit) for fit in reusable_fits(stored, facts)}
    stale = [fit for fit in stored if fit_key(fit) not in current_keys]
    if not stale:
        return ""
    pairs = [(fit.made_of, _current_facts(fit, facts)) for fit in stale]
    differences = [
        text
        for name, text in DIFFERENCES.items()
        if any(name in now and made_of.get(name) != now[name] for made_of, now in pairs)
    ]
    return (
        f"{where}: {len(stale):,} stored fits are not used, and recomputed if needed. They were "
        f"made with {' and '.join(differences) or 'other inputs'}."
    )


def _current_facts(fit: ComparedFit, facts: Mapping[str, Facts]) -> Facts:
    """Return the present inputs that a stored fit is compared with."""
    if fit.method in facts:
        return facts[fit.method]
    first = next(iter(facts.values()), {})
    return {name: first[name] for name in SHARED_FACTS if name in first}


def _is_reusable(fit: ComparedFit, facts: Mapping[str, Facts]) -> bool:
    if fit.method in facts:
        return fit.made_of == facts[fit.method]
    shared = [fit.made_of.get(name) for name in SHARED_FACTS]
    return any(shared == [current.get(name) for name in SHARED_FACTS] for current in facts.values())


def summary(fits: Sequence[ComparedFit], figure: str) -> dict[str, dict[int, tuple[float, float]]]:
    """Return mean and standard error of a figure over the seeds with a fit, by method and size.

    NaN where it was not computed.
    """
    result: dict[str, dict[int, tuple[float, float]]] = {}
    fitted = [fit for fit in fits if not fit.failed]
    for name in dict.fromkeys(fit.method for fit in fits):
        for n in sorted({fit.n for fit in fits}):
            values = np.array(
                [f.figures.get(figure, np.nan) for f in fitted if (f.method, f.n) == (name, n)]
            )
            mean = float(values.mean()) if values.size else float("nan")
            error = (
                float(values.std(ddof=1) / np.sqrt(values.size))
                if values.size > 1
                else float("nan")
            )
            result.setdefault(name, {})[n] = (mean, error)
    return result


def append_fit(path: Path, fit: ComparedFit) -> None:
    """Append a fit to a file of JSON lines."""
    append_line(path, asdict(fit))


def read_fits(path: Path) -> list[ComparedFit]:
    """Return the fits of a file of JSON lines, none where there is no file.

    Failed fits are left out, so that they are tried again. Raises InputError for a damaged line.
    """
    return [fit for fit in read_lines(path, _fit_of_line, what="compared fit") if not fit.failed]


def _fit_of_line(values: dict[str, Any]) -> ComparedFit:
    return ComparedFit(**{**values, "warnings": tuple(values["warnings"])})
