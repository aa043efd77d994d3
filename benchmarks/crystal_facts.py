"""Inputs of a stored fit of the benchmark on crystals: only fits of the same inputs are reused."""

import importlib.metadata
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bandgap.datasets.table import LabelledSet
from bandgap.descriptors import DescriptorConfig
from bandgap.foundation.config import fingerprint
from bandgap.runs.compared_fits import DIFFERENCES, ComparedFit

_log = logging.getLogger(__name__)


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
