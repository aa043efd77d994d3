"""Inputs of stored fits of the benchmarks on crystals: only fits of the same inputs are reused."""

import importlib.metadata
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bandgap.datasets.table import LabelledSet
from bandgap.descriptors import DescriptorConfig
from bandgap.foundation.config import fingerprint
from bandgap.runs.compared_fits import DIFFERENCES, ComparedFit, read_fits

_log = logging.getLogger(__name__)

Key = tuple[str, int, int]  # method, size and seed


def facts_of(
    labelled: LabelledSet, n_test: int, descriptor: DescriptorConfig, *, source: str = ""
) -> dict[str, Any]:
    """Return what fits depend on besides method, size and seed, by the names of `DIFFERENCES`.

    `source` is the fingerprint of the source's networks, "" if there is no source.
    """
    rows = [
        [r.id, r.content, float(gap)]
        for r, gap in zip(labelled.records, labelled.gaps_eV, strict=True)
    ]
    facts = {"data": fingerprint(rows), "n_test": n_test, "descriptor": fingerprint(descriptor)}
    facts["version"] = importlib.metadata.version("bandgap")
    return facts | ({"source": source} if source else {})


def reusable_fits(
    file: Path, keys: Sequence[Key], facts: Mapping[str, Any]
) -> dict[Key, ComparedFit]:
    """Return the stored fits with these keys and inputs, and log which others are recomputed.

    If a fit is stored twice, the last one counts, as in a file of errors.
    """
    stored_fits = {(fit.method, fit.n, fit.seed): fit for fit in read_fits(file)}
    fits = {key: stored_fits[key] for key in keys if key in stored_fits}
    reusable = {key: fit for key, fit in fits.items() if fit.made_of == facts}
    report_recomputed_fits([fit for key, fit in fits.items() if key not in reusable], facts, file)
    return reusable


def report_recomputed_fits(
    fits: Sequence[ComparedFit], facts: Mapping[str, Any], file: Path
) -> None:
    """Log that stored fits of a method are recomputed, and why."""
    if not fits:
        return
    differences = [
        words
        for name, words in DIFFERENCES.items()
        if any(f.made_of.get(name) != facts.get(name) for f in fits)
    ]
    why = f"were made with {' and '.join(differences)}"
    _log.warning("%s: fits of %s %s and are recomputed (%d)", file, fits[0].method, why, len(fits))
