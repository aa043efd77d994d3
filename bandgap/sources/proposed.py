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

from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import (
    BOTH,
    HUECKEL,
    METHOD,
    MOLECULES,
    tight_binding_gaps_problem,
)
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
INSTALL_LEVELS: Final = (
    "`pip install -c constraints.txt '.[xtb]'` in the folder of bandgap's README"
)


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
    alternative, alternative_shows
        Another method, and what only this one shows.
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
    alternative: str = ""
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
    if not transfers:
        return _without_source(
            target,
            levels_installed=levels_installed,
            bonds_installed=bonds_installed,
            potentials=potentials,
        )
    if target.has_many_rows:
        return Proposal(
            True,
            LAYERS,
            "none",
            f"More than {MAX_ROWS:,} structures are to be learned from, for which a Gaussian "
            "process on all of them takes too much memory and time.",
            "",
        )
    if tight_binding_gaps_problem(target.level_of_theory):
        method = _best_method(target, transfers=True, levels="none", otherwise=LAYERS)
        return Proposal(
            True,
            method,
            "none",
            f"The gaps were computed with {target.level_of_theory}: {METHOD} electron levels as "
            "features would nearly give the answer, and are not used."
            + (_SHOWS_LAYERS_ITSELF if method == LAYERS else ""),
            _measured(target, method, transfers=True),
        )
    return _features_of_source(
        target,
        levels_installed=levels_installed,
        bonds_installed=bonds_installed,
        potentials=potentials,
    )


_SHOWS_LAYERS_ITSELF: Final = " This method shows which layers of the source model moved."
_SHOWS_LAYERS: Final = (
    "Bayesian transfer with a penalized complexity prior alone shows which layers moved: the "
    "posterior of c."
)


def _best_method(target: Target, *, transfers: bool, levels: ElectronLevels, otherwise: str) -> str:
    """Return the method with the lowest measured error, `otherwise` where none was measured."""
    row = best_measured(target.kind, has_source=transfers, levels=levels, n=target.n)
    return otherwise if row is None else row.method


def _measured(
    target: Target,
    method: str,
    *,
    transfers: bool,
    levels: ElectronLevels = "none",
    potentials: Collection[str] = (),
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
    return f"Measured on {row.kind} ({row.conditions}): RMSE {row.text}{comparison}."


def _gain(
    kind: CrystalKind,
    method: str,
    *,
    transfers: bool,
    levels: ElectronLevels,
    instead_of: ElectronLevels,
    of_what: str,
) -> str:
    """Return by how much levels that are not installed lowered the error; "" if not measured.

    `instead_of` are the levels that are proposed without them.
    """
    row = error_of(kind, method, has_source=transfers, levels=levels)
    if row is None:
        return ""
    without = error_of(kind, method, has_source=transfers, levels=instead_of, like=row)
    comparison = ""
    if without is not None and without.measured_with(row):
        comparison = f" instead of {without.text}"
    return (
        f"With {METHOD} levels of {of_what} it was {row.text}{comparison} ({row.conditions}): "
        f"install them by {INSTALL_LEVELS}."
    )


def _gain_of_organic(target: Target, method: str, *, transfers: bool, bonds_installed: bool) -> str:
    """Return by how much tight-binding levels lowered the error on organic structures."""
    return _gain(
        target.kind,
        method,
        transfers=transfers,
        levels=_levels_of_organic(True, bonds_installed),
        instead_of=_levels_of_organic(False, bonds_installed),
        of_what="every structure",
    )


def _gain_of_potentials(
    target: Target, method: str, *, levels: ElectronLevels, potentials: Collection[str]
) -> str:
    """Return by how much potentials that are not installed lowered the error; "" if not measured.

    They describe crystals without a source only.
    """
    pair = gain_of_potentials(
        target.kind, method, has_source=False, levels=levels, potentials=potentials, n=target.n
    )
    if pair is None:
        return ""
    more, now = pair
    names = more.extras.split()
    command = f"pip install -c constraints.txt '.[{','.join(names)}]'"
    return (
        f"With pretrained potentials ({' and '.join(names)}) it was {more.text} instead of "
        f"{now.text} ({more.n} labelled, {more.n_test} held out): install them by `{command}` in "
        "the folder of bandgap's README."
    )


def _without_source(
    target: Target,
    *,
    levels_installed: bool,
    bonds_installed: bool,
    potentials: Collection[str],
) -> Proposal:
    """Return the proposal without a source.

    It has levels of the molecules for hybrid perovskites, and all levels for organic structures.
    """
    is_tight_binding = bool(tight_binding_gaps_problem(target.level_of_theory))
    takes_molecules = target.is_hybrid and not is_tight_binding
    levels: ElectronLevels = MOLECULES if takes_molecules and levels_installed else "none"
    if target.is_organic and not is_tight_binding:
        levels = _levels_of_organic(levels_installed, bonds_installed)
    method = _best_method(target, transfers=False, levels=levels, otherwise=WITHOUT_SOURCE)
    reason = (
        "Without a source model, three methods are combined, with weights from crystals that they "
        "were not trained on."
        if method == WITHOUT_SOURCE
        else "No source model is used."
    )
    measured = _measured(target, method, transfers=False, levels=levels, potentials=potentials)
    learns = "They also learn" if method == WITHOUT_SOURCE else "The method also learns"
    if levels == METHOD:
        reason += f" {learns} from {METHOD} levels, which take {_TIME_OF_LEVELS}."
    if levels == HUECKEL:
        reason += f" {learns} from {_OF_BONDS}"
    if levels == BOTH:
        reason += (
            f" {learns} from {METHOD} levels, which take {_TIME_OF_LEVELS}, and from {_OF_BONDS}"
        )
    if levels == MOLECULES:
        has_others = any(not {"C", "H"} <= set(elements) for elements in target.element_sets)
        loss = " Structures without a molecule, such as CsPbI3, are left out." if has_others else ""
        reason += (
            f" {learns} from {METHOD} levels of the molecules in each crystal, which take a "
            f"tenth of a second.{loss}"
        )
    gain = ""
    if target.is_organic and not is_tight_binding and not levels_installed:
        gain = _gain_of_organic(target, method, transfers=False, bonds_installed=bonds_installed)
    if takes_molecules and not levels_installed:
        gain = _gain(
            target.kind,
            method,
            transfers=False,
            levels=MOLECULES,
            instead_of="none",
            of_what="the molecules in each crystal",
        )
    if not gain and (pair := source_gain(target, potentials=potentials)):
        with_source, alone = pair
        gain = (
            f"With `--source {with_source.source}` and {with_source.method} it was "
            f"{with_source.text} instead of {alone.text} ({with_source.conditions})."
        )
    if not gain:
        gain = _gain_of_potentials(target, method, levels=levels, potentials=potentials)
    return Proposal(
        False, method, levels, reason, measured, gain=gain, potentials=tuple(potentials)
    )


_TIME_OF_LEVELS: Final = "about a second for each structure"
_OF_BONDS: Final = (
    "levels by Hückel's method, from the bonds of the molecules, which take milliseconds for each "
    "structure. Structures without a molecule are left out."
)


def _levels_of_organic(levels_installed: bool, bonds_installed: bool) -> ElectronLevels:
    """Return the electron levels that can be computed for organic structures."""
    if levels_installed:
        return BOTH if bonds_installed else METHOD
    return HUECKEL if bonds_installed else "none"


def _features_of_source(
    target: Target,
    *,
    levels_installed: bool,
    bonds_installed: bool,
    potentials: Collection[str],
) -> Proposal:
    """Return the proposal with a source, which is most often a Gaussian process on its features."""
    levels: ElectronLevels = "none"
    if target.is_organic:
        levels = _levels_of_organic(levels_installed, bonds_installed)
    method = _best_method(target, transfers=True, levels=levels, otherwise=FEATURES)
    gain = ""
    if target.is_organic and not levels_installed:
        gain = _gain_of_organic(target, method, transfers=True, bonds_installed=bonds_installed)
    reason = "A Gaussian process on the source model's features takes seconds."
    if method != FEATURES:
        reason = "It had the smallest error of the methods that are proposed."
    elif levels == HUECKEL:
        reason = f"A Gaussian process on the source model's features and on {_OF_BONDS}"
    elif levels != "none":
        reason = (
            f"A Gaussian process on the source model's features and on {METHOD} levels, which take "
            f"{_TIME_OF_LEVELS}."
        )
        if levels == BOTH:
            reason += f" It also learns from {_OF_BONDS}"
    shows = _SHOWS_LAYERS
    of_layers = error_of(target.kind, LAYERS, has_source=True, levels=levels)
    of_method = error_of(target.kind, method, has_source=True, levels=levels, like=of_layers)
    if of_layers and of_method and of_layers.measured_with(of_method):
        shows += f" Its RMSE was {of_layers.text}, that of {method} {of_method.text}."
    return Proposal(
        True,
        method,
        levels,
        reason,
        _measured(target, method, transfers=True, levels=levels, potentials=potentials),
        gain=gain,
        alternative="" if method == LAYERS else LAYERS,
        alternative_shows="" if method == LAYERS else shows,
    )
