"""What is proposed for labelled structures that were read (`sources.proposed`)."""

import importlib.util
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import elements_of
from bandgap.descriptors.electron_levels import Levels, checked_levels
from bandgap.sources.proposed import Proposal, Target, propose
from bandgap.structures import StructureRecord

DEFAULT_TEST_SHARE = 0.2


def propose_for(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    has_source: bool,
    level_of_theory: str = "",
    n: int | None = None,
    levels_installed: bool | None = None,
) -> Proposal:
    """Return the method and the electron levels that are proposed for structures with gaps (n,) in eV (NaN: none).

    `n` is the number of structures to learn from (None: all but a fifth). `levels_installed` says whether electron
    levels can be computed (None: where tblite is installed). The proposal says why, and what errors were measured.
    """
    usable = [
        record
        for record, gap in zip(records, gaps_eV, strict=False)  # the run compares their numbers
        if record.status != "refused" and np.isfinite(gap)
    ]
    sets = Counter(tuple(sorted(elements_of(record))) for record in usable)
    n_learned = round((1.0 - DEFAULT_TEST_SHARE) * len(usable)) if n is None else n
    if levels_installed is None:
        levels_installed = importlib.util.find_spec("tblite") is not None
    target = Target(sets, level_of_theory, n_learned)
    return propose(target, transfers=has_source, levels_installed=levels_installed)


def method_and_levels(
    method: str | None,
    levels: str | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    has_source: bool,
    level_of_theory: str,
    n: int | None,
) -> tuple[str, Levels, Proposal | None]:
    """Return the method and the levels of a run, and the proposal where the method is not given (None).

    Levels that are not given are the proposed ones of a proposed method, and none of a method that is given. Where
    levels are given, the method is proposed for these. Raises ConfigError for levels that there are not.
    """
    wanted = None if levels is None else checked_levels(levels)
    if method is not None:
        return method, wanted or "none", None
    proposal = propose_for(
        records,
        gaps_eV,
        has_source=has_source,
        level_of_theory=level_of_theory,
        n=n,
        levels_installed=None if wanted is None else wanted != "none",
    )
    return proposal.method, wanted or proposal.levels, proposal
