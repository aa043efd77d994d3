"""The proposed method and electron levels for labelled structures (rules: `sources.proposed`)."""

import functools
import importlib.util
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.datasets.checked import checked_set
from bandgap.datasets.table import LabelledSet, elements_of, usable_rows
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, checked_levels
from bandgap.descriptors.potentials import installed_extras
from bandgap.foundation.arguments import as_numbers, check_count
from bandgap.foundation.requests import checked_keywords
from bandgap.predictions.gap_distribution import ZERO_EV, enough_metals
from bandgap.sources.proposed import Proposal, Target, propose
from bandgap.structures import StructureRecord, as_records

DEFAULT_TEST_SHARE = 0.2


@checked_keywords()
def propose_for(
    records: object,
    gaps_eV: ArrayLike,
    *,
    has_source: bool,
    level_of_theory: str = "",
    n: int | None = None,
    levels_installed: bool | None = None,
    bonds_installed: bool = True,
) -> Proposal:
    """Return the proposed method and electron levels, with the reason and the measured errors.

    Parameters
    ----------
    records, gaps_eV
        Structures of any kind that `as_records` takes and their gaps, (n,), in eV, NaN where there
        is none.
    has_source
        Whether there is a source model.
    level_of_theory
        Method of the labels.
    n
        Number of structures to learn from. Default: all but a fifth.
    levels_installed
        Whether electron levels can be computed by tight binding. Default: whether tblite is
        installed.
    bonds_installed
        Whether levels can be computed from the bonds of molecules.

    Raises
    ------
    InputError
        For structures of another kind, for values that are not gaps, for another number of gaps
        than of structures, and for an `n` that is not a whole number from 1.
    """
    data = checked_set(
        LabelledSet(as_records(records), as_numbers(gaps_eV, name="gaps_eV"), level_of_theory)
    )
    if n is not None:
        check_count(n, name="n")
    usable = usable_rows(data.records, data.gaps_eV)
    element_sets = Counter(tuple(sorted(elements_of(data.records[row]))) for row in usable)
    n_metals = sum(data.gaps_eV[row] <= ZERO_EV for row in usable)
    n_learned = round((1.0 - DEFAULT_TEST_SHARE) * len(usable)) if n is None else n
    if levels_installed is None:
        levels_installed = importlib.util.find_spec("tblite") is not None
    target = Target(
        element_sets,
        level_of_theory,
        n_learned,
        has_metals=enough_metals(n_metals, len(usable)),
    )
    return propose(
        target,
        transfers=has_source,
        levels_installed=levels_installed,
        bonds_installed=bonds_installed,
        potentials=installed_extras(),
    )


def method_and_levels(
    method: str | None,
    levels: str | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    has_source: bool,
    level_of_theory: str,
    n: int | None,
) -> tuple[str, ElectronLevels, Proposal | None]:
    """Return the method and the electron levels of a run, and the proposal if the method is None.

    With a given method, levels that are None become "none". Without one, both are proposed; given
    levels are used, and the method is proposed for them. Raises ConfigError for unknown levels.
    """
    requested_levels = None if levels is None else checked_levels(levels)
    if method is not None:
        return method, requested_levels or "none", None
    propose_with = functools.partial(
        propose_for, records, gaps_eV, has_source=has_source, level_of_theory=level_of_theory, n=n
    )
    if requested_levels is None:
        proposal = propose_with()
        return proposal.method, proposal.levels, proposal
    proposal = propose_with(
        levels_installed=requested_levels not in ("none", HUECKEL),
        bonds_installed=requested_levels in (HUECKEL, BOTH),
    )
    if proposal.levels != requested_levels:  # its sentences are on other levels
        proposal = propose_with(levels_installed=False, bonds_installed=False)
    # Who gives the levels need not be told to install what computes them.
    proposal = replace(proposal, gain="")
    return proposal.method, requested_levels, proposal
