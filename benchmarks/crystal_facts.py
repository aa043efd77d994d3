"""What a kept fit of the benchmark on crystals was made of, so that only fits of the same are gone on from."""

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
    """Return what fits depend on beside method, size and seed, by the names of `DIFFERENCES`.

    `source` is the fingerprint of the networks that a method starts from, "" where it starts from none.
    """
    rows = [
        [r.id, r.content, float(gap)]
        for r, gap in zip(labelled.records, labelled.gaps_eV, strict=True)
    ]
    facts = {"data": fingerprint(rows), "n_test": n_test, "descriptor": fingerprint(descriptor)}
    facts["version"] = importlib.metadata.version("bandgap")
    return facts | ({"source": source} if source else {})


def tell_of_others(fits: Sequence[ComparedFit], facts: Mapping[str, Any], file: Path) -> None:
    """Say in the log that these kept fits of one method are made again, and why; nothing where there are none."""
    if not fits:
        return
    other = [
        words
        for name, words in DIFFERENCES.items()
        if any(f.made_of.get(name) != facts.get(name) for f in fits)
    ]
    _log.warning(
        "%s: fits of %s were made with %s and are made again (%d)",
        file,
        fits[0].method,
        " and ".join(other),
        len(fits),
    )
