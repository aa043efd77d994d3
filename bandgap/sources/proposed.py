"""The proposed source, method and electron levels for labelled structures; imports no torch.

The dashboard, `bandgap transfer` and `transfer_run` use this rule. The method is the one with the
lowest error in the table of `measured_errors` on the kind of crystals that is most like the target;
docs/explanation/which-source-and-method.md says how errors were measured. Electron levels were not
measured for inorganic crystals, and take many seconds for each, so that they are not proposed
there; those of the molecules in hybrid perovskites are.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bandgap.descriptors.block_settings import INSTALL_LEVELS, ElectronLevels
from bandgap.descriptors.electron_levels import (
    BOTH,
    HUECKEL,
    METHOD,
    MOLECULES,
    tight_binding_gaps_problem,
)
from bandgap.foundation.extras import install_command
from bandgap.sources.measured_errors import (
    CrystalKind,
    MeasuredError,
    best_measured,
    error_of,
    gain_of_potentials,
    gain_of_source,
)

# Share of structures whose elements a source must know to be proposed, or that must be organic.
MIN_SHARE: Final = 0.8
# Largest number of training rows for `feature_gp`, which uses several matrices of that size.
MAX_ROWS: Final = 2_000
NON_METALS: Final = frozenset(["H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I"])

# The method whose posterior shows which layers moved.
LAYERS: Final = "btl_pcp_pe"
FEATURES: Final = "feature_gp"
WITHOUT_SOURCE: Final = "stacking"
NETWORKS: Final = "fresh_networks"  # of the methods without a source, for many rows


@dataclass(frozen=True)
class Target:
    """What a proposal depends on.

    Parameters
    ----------
    element_sets
        Number of structures by their elements.
    level_of_theory
        That of the labels.
    n
        Number of structures to learn from; None if it is most of them.
    has_metals
        Whether the labels contain enough zeros for a probability of a metal.
    """

    element_sets: Mapping[tuple[str, ...], int]
    level_of_theory: str = ""
    n: int | None = None
    has_metals: bool = False

    @property
    def total(self) -> int:
        """Number of structures."""
        return sum(self.element_sets.values())

    @property
    def is_organic(self) -> bool:
        """Whether most structures contain carbon and hydrogen, and no metal."""
        n_organic = sum(
            count
            for elements, count in self.element_sets.items()
            if {"C", "H"} <= set(elements) <= NON_METALS
        )
        return 0 < MIN_SHARE * self.total <= n_organic

    @property
    def is_hybrid(self) -> bool:
        """Whether most structures contain lead and iodine, carbon and hydrogen.

        Levels of the molecules were measured on such perovskites only.
        """
        n_hybrid = sum(
            count
            for elements, count in self.element_sets.items()
            if {"C", "H", "I", "Pb"} <= set(elements)
        )
        return 0 < MIN_SHARE * self.total <= n_hybrid

    @property
    def kind(self) -> CrystalKind:
        """The measured kind of crystals that is most like these.

        Examples
        --------
        >>> Target({("C", "H", "I", "N", "Pb"): 9, ("C", "H", "Pb"): 1}, "HSE06").kind
        'lead-iodide perovskites with hybrid gaps'
        """
        if tight_binding_gaps_problem(self.level_of_theory):
            return "molecular crystals with tight-binding gaps"
        if self.is_organic:
            return "PBE gaps of organic crystals, described by their molecules"
        if self.has_metals:
            return "inorganic perovskites with metals among them, GLLB-SC"
        if self._share_with({"Pb", "I"}) >= MIN_SHARE:
            return "lead-iodide perovskites with hybrid gaps"
        if self._share_with({"C", "H"}) >= MIN_SHARE:
            return "inorganic crystals with carbon and hydrogen, PBE"
        if self.level_of_theory.strip().upper() not in ("", "PBE"):
            return "crystals of any elements, measured gaps"
        return "crystals of any elements, PBE"

    def _share_with(self, symbols: set[str]) -> float:
        """Return the share of structures that contain all these elements."""
        n = sum(count for elements, count in self.element_sets.items() if symbols <= set(elements))
        return n / max(self.total, 1)

    @property
    def has_many_rows(self) -> bool:
        """Whether there are more training rows than `feature_gp` can use."""
        return (self.total if self.n is None else self.n) > MAX_ROWS


@dataclass(frozen=True)
class Proposal:
    """A proposal and its reasons.

    Parameters
    ----------
    transfers
        Whether to transfer from a source.
    method, levels
        The method and the electron levels.
    reason
        Why they are proposed.
    measured
        Measured errors.
    gain
        What electron levels or pretrained potentials would gain that are not installed; otherwise
        empty.
    alternative_shows
        What only another method shows.
    potentials
        Extras of the installed potentials with which the errors were measured, where there are
        such errors.
    """

    transfers: bool
    method: str
    levels: ElectronLevels
    reason: str
    measured: str
    gain: str = ""
    alternative_shows: str = ""
    potentials: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All texts but the method's name."""
        return " ".join(
            filter(None, (self.reason, self.measured, self.gain, self.alternative_shows))
        )


def knows_most(n_known: int, total: int) -> bool:
    """Return whether a source is proposed that knows all elements of `n_known` of the structures.

    Examples
    --------
    >>> knows_most(2596, 2987), knows_most(0, 353)
    (True, False)
    """
    return n_known >= MIN_SHARE * total


def source_gain(
    target: Target, *, potentials: Collection[str]
) -> tuple[MeasuredError, MeasuredError] | None:
    """Return the measured errors with the shipped source that is proposed, and without a source.

    None where no source was better on the kind of crystals that is most like the target.

    Examples
    --------
    >>> oxides = Target({("O", "Ti"): 60, ("O", "Zn"): 40}, "experiment", n=50)
    >>> with_source, alone = source_gain(oxides, potentials=["chgnet"])
    >>> with_source.source, with_source.method, alone.method
    ('pbe', 'feature_gp', 'stacking')
    """
    if target.has_many_rows:
        return None
    return gain_of_source(target.kind, potentials=potentials, n=target.n)


def propose(
    target: Target,
    *,
    transfers: bool | None = None,
    n_known: int = 0,
    levels_installed: bool = False,
    bonds_installed: bool = False,
    potentials: Collection[str] = (),
) -> Proposal:
    """Return the proposal for a target.

    Parameters
    ----------
    target
        The labelled structures.
    transfers
        Whether a source is given. If None, one is proposed if it knows most structures.
    n_known
        Number of structures whose elements the source knows.
    levels_installed
        Whether electron levels can be computed by tight binding.
    bonds_installed
        Whether the bonds of molecules can be perceived, for levels by Hückel's method.
    potentials
        Extras of the installed pretrained potentials.

    Examples
    --------
    >>> organic = Target({("C", "H", "N"): 90, ("C", "Br", "H"): 10}, "PBE", n=70)
    >>> proposal = propose(organic, n_known=90, levels_installed=True)
    >>> proposal.transfers, proposal.method, proposal.levels
    (True, 'feature_gp', 'GFN1-xTB')
    """
    if transfers is None:
        transfers = knows_most(n_known, target.total)
    if target.has_many_rows:
        return Proposal(
            transfers,
            LAYERS if transfers else NETWORKS,
            "none",
            f"More than {MAX_ROWS:,} structures are to be learned from, for which a Gaussian "
            "process on all of them takes too much memory and time.",
            "",
        )
    levels, possible_levels = (
        _levels_for(target, transfers=transfers, levels=can_compute, bonds=bonds_installed)
        for can_compute in (levels_installed, True)
    )
    is_tight_binding = bool(tight_binding_gaps_problem(target.level_of_theory))
    with_source = LAYERS if is_tight_binding else FEATURES
    row = best_measured(target.kind, has_source=transfers, levels=levels, n=target.n)
    method = row.method if row else with_source if transfers else WITHOUT_SOURCE
    reason = _reason(target, method, levels, transfers=transfers)
    if transfers and is_tight_binding:
        reason = (
            f"The gaps were computed with {target.level_of_theory}: {METHOD} electron levels as "
            "features would nearly give the answer, and are not used."
            + (_SHOWS_LAYERS_ITSELF if method == LAYERS else "")
        )
    gain = ""
    if possible_levels != levels:
        gain = _gain_of_levels(target, method, possible_levels, levels, transfers=transfers)
    if not transfers:
        gain = gain or _gain_of_source(target, potentials)
        gain = gain or _gain_of_potentials(target, method, levels=levels, potentials=potentials)
    shows = ""
    if transfers and method != LAYERS and not is_tight_binding:
        shows = _SHOWS_LAYERS
        of_layers = error_of(target.kind, LAYERS, has_source=True, levels=levels)
        of_method = error_of(target.kind, method, has_source=True, levels=levels, like=of_layers)
        if of_layers and of_method and of_layers.measured_with(of_method):
            shows += f" Its RMSE was {of_layers.text}, that of {method} {of_method.text}."
    return Proposal(
        transfers,
        method,
        levels,
        reason,
        _measured(target, method, transfers=transfers, levels=levels, potentials=potentials),
        gain=gain,
        alternative_shows=shows,
        potentials=() if transfers else tuple(potentials),
    )


_SHOWS_LAYERS_ITSELF: Final = " This method shows which layers of the source model moved."
_SHOWS_LAYERS: Final = (
    "Bayesian transfer with a penalized complexity prior alone shows which layers moved: the "
    "posterior of c."
)
_TIME_OF_LEVELS: Final = "which take about a second for each structure"
_OF_BONDS: Final = (
    "levels by Hückel's method, from the bonds of the molecules, which take milliseconds for each "
    "structure. Structures without a molecule are left out."
)
_LEARNS_FROM: Final[Mapping[ElectronLevels, str]] = {
    METHOD: f"{METHOD} levels, {_TIME_OF_LEVELS}.",
    HUECKEL: _OF_BONDS,
    BOTH: f"{METHOD} levels, {_TIME_OF_LEVELS}, and from {_OF_BONDS}",
    MOLECULES: f"{METHOD} levels of the molecules in each crystal, which take a tenth of a second.",
}


def _levels_for(target: Target, *, transfers: bool, levels: bool, bonds: bool) -> ElectronLevels:
    """Return the proposed electron levels of those that can be computed.

    They are all of them for organic structures, and without a source those of the molecules for
    hybrid perovskites.
    """
    if tight_binding_gaps_problem(target.level_of_theory):
        return "none"
    if target.is_organic and levels:
        return BOTH if bonds else METHOD
    if target.is_organic and bonds:
        return HUECKEL
    return MOLECULES if target.is_hybrid and levels and not transfers else "none"


def _reason(target: Target, method: str, levels: ElectronLevels, *, transfers: bool) -> str:
    """Return why a method is proposed, and what its electron levels take."""
    reason = "No source model is used."
    learns = "The method also learns"
    if method == WITHOUT_SOURCE and not transfers:
        reason = (
            "Without a source model, three methods are combined, with weights from crystals that "
            "they were not trained on."
        )
        learns = "They also learn"
    if transfers:
        if method != FEATURES:
            return "It had the smallest error of the methods that are proposed."
        reason = "A Gaussian process on the source model's features takes seconds."
    if levels != "none":
        reason += f" {learns} from {_LEARNS_FROM[levels]}"
    if levels == MOLECULES and any(not {"C", "H"} <= set(e) for e in target.element_sets):
        reason += " Structures without a molecule, such as CsPbI3, are left out."
    return reason


def _measured(
    target: Target,
    method: str,
    *,
    transfers: bool,
    levels: ElectronLevels,
    potentials: Collection[str],
) -> str:
    """Return the measured error of a method in words, with that without levels; "" for none."""
    kind = target.kind
    row = error_of(
        kind, method, has_source=transfers, levels=levels, potentials=potentials, n=target.n
    )
    if row is None:
        return ""
    without = error_of(kind, method, has_source=transfers, like=row) if levels != "none" else None
    is_comparable = without is not None and without.measured_with(row)
    comparison = f", without levels {without.text}" if without and is_comparable else ""
    lacks = "" if transfers or row.potentials or not potentials else ", no pretrained potentials"
    return f"Measured on {row.kind} ({row.conditions}{lacks}): RMSE {row.text}{comparison}."


def _gain_of_levels(
    target: Target,
    method: str,
    levels: ElectronLevels,
    instead_of: ElectronLevels,
    *,
    transfers: bool,
) -> str:
    """Return by how much levels that are not installed lowered the error; "" if not measured.

    `instead_of` are the levels that are proposed without them.
    """
    row = error_of(target.kind, method, has_source=transfers, levels=levels)
    if row is None:
        return ""
    without = error_of(target.kind, method, has_source=transfers, levels=instead_of, like=row)
    comparison = ""
    if without is not None and without.measured_with(row):
        comparison = f" instead of {without.text}"
    of_what = "the molecules in each crystal" if levels == MOLECULES else "every structure"
    return (
        f"With {METHOD} levels of {of_what} it was {row.text}{comparison} ({row.conditions}): "
        f"they need tblite: {INSTALL_LEVELS}."
    )


def _gain_of_source(target: Target, potentials: Collection[str]) -> str:
    """Return by how much a shipped source lowered the error; "" if it did not."""
    pair = source_gain(target, potentials=potentials)
    if pair is None:
        return ""
    with_source, alone = pair
    return (
        f"With `--source {with_source.source}` and {with_source.method} it was "
        f"{with_source.text} instead of {alone.text} ({with_source.conditions})."
    )


def _gain_of_potentials(
    target: Target, method: str, *, levels: ElectronLevels, potentials: Collection[str]
) -> str:
    """Return by how much potentials that are not installed lowered the error; "" if not measured.

    They describe crystals without a source only.
    """
    pair = gain_of_potentials(target.kind, method, levels=levels, potentials=potentials, n=target.n)
    if pair is None:
        return ""
    more, now = pair
    names = more.extras.split()
    return (
        f"With pretrained potentials ({' and '.join(names)}) it was {more.text} instead of "
        f"{now.text} ({more.n} labelled, {more.n_test} held out): install them by "
        f"{install_command(','.join(names))}."
    )
