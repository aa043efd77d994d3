"""The proposed source, method and electron levels for labelled structures; imports no torch.

The dashboard, `bandgap transfer` and `transfer_run` use this rule. The measurements behind it are
in docs/explanation/which-source-and-method.md. Electron levels were not measured for inorganic
crystals, and take many seconds for each, so that they are not proposed there; those of the
molecules in hybrid perovskites are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import METHOD, MOLECULES, tight_binding_gaps_problem

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

# The gaps are of crystals (OMDB); the geometries are single molecules by a force field.
_ON_ORGANIC: Final = (
    "PBE gaps of organic crystals, of which only single molecules were described (100 labelled, "
    "760 held out)"
)
_ON_HYBRID: Final = (
    "lead-iodide perovskites with hybrid gaps, extra chgnet installed (100 labelled, 103 held out, "
    "five splits)"
)
_ON_INORGANIC: Final = (
    "inorganic crystals with carbon and hydrogen, PBE (140 labelled, 69 held out)"
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
    """

    element_sets: Mapping[tuple[str, ...], int]
    level_of_theory: str = ""
    n: int | None = None

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
        What electron levels would gain if they are not installed; otherwise empty.
    alternative, alternative_shows
        Another method, and what only this one shows.
    """

    transfers: bool
    method: str
    levels: ElectronLevels
    reason: str
    measured: str
    gain: str = ""
    alternative: str = ""
    alternative_shows: str = ""

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


def propose(
    target: Target,
    *,
    transfers: bool | None = None,
    n_known: int = 0,
    levels_installed: bool = False,
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
        Whether electron levels can be computed.

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
        return _without_source(target, levels_installed=levels_installed)
    if tight_binding_gaps_problem(target.level_of_theory):
        return Proposal(
            True,
            LAYERS,
            "none",
            f"The gaps were computed with {target.level_of_theory}: {METHOD} electron levels as "
            "features would nearly give the answer, and are not used. "
            "This method shows which layers of the source model moved.",
            "",
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
    return _features_of_source(target, levels_installed=levels_installed)


def _without_source(target: Target, *, levels_installed: bool) -> Proposal:
    """Return the proposal of stacking, with levels of the molecules for hybrid perovskites."""
    reason = (
        "Without a source model, three methods are combined, with weights from crystals that they "
        "were not trained on."
    )
    if not target.is_hybrid or tight_binding_gaps_problem(target.level_of_theory):
        return Proposal(
            False,
            WITHOUT_SOURCE,
            "none",
            reason,
            f"Measured on {_ON_INORGANIC}: RMSE 0.92 eV, with a source model of inorganic crystals "
            "0.89 eV, which is no clear difference.",
        )
    if not levels_installed:
        return Proposal(
            False,
            WITHOUT_SOURCE,
            "none",
            reason,
            f"Measured on {_ON_HYBRID}: RMSE 0.22 eV.",
            gain=(
                f"With {METHOD} levels of the molecules in each crystal it was 0.18 eV: "
                f"install them by {INSTALL_LEVELS}."
            ),
        )
    has_others = any(not {"C", "H"} <= set(elements) for elements in target.element_sets)
    loss = " Structures without a molecule, such as CsPbI3, are left out." if has_others else ""
    return Proposal(
        False,
        WITHOUT_SOURCE,
        MOLECULES,
        f"{reason} They also learn from {METHOD} levels of the molecules in each crystal, which "
        f"take a tenth of a second.{loss}",
        f"Measured on {_ON_HYBRID}: RMSE 0.18 eV, without levels 0.22 eV.",
    )


def _features_of_source(target: Target, *, levels_installed: bool) -> Proposal:
    """Return the proposal of a Gaussian process on the source's features."""
    shows = (
        "Bayesian transfer with a penalized complexity prior (0.43 eV with levels, 0.54 to 0.59 eV "
        "without) alone shows which layers moved: the posterior of c. Choose it too to have both."
    )
    if not target.is_organic:
        return Proposal(
            True,
            FEATURES,
            "none",
            "A Gaussian process on the source model's features takes seconds and had the "
            "smallest error of all transfers.",
            f"Measured on {_ON_INORGANIC}: RMSE 0.89 eV from a source of inorganic crystals.",
            alternative=LAYERS,
            alternative_shows="Bayesian transfer with a penalized complexity prior alone shows "
            "which layers moved: the posterior of c.",
        )
    if levels_installed:
        return Proposal(
            True,
            FEATURES,
            METHOD,
            f"A Gaussian process on the source model's features and on {METHOD} levels, which take "
            "about a second for each structure.",
            f"Measured on {_ON_ORGANIC}: RMSE 0.38 to 0.40 eV, without levels 0.52 to 0.60 eV.",
            alternative=LAYERS,
            alternative_shows=shows,
        )
    return Proposal(
        True,
        FEATURES,
        "none",
        "A Gaussian process on the source model's features takes seconds.",
        f"Measured on {_ON_ORGANIC}: RMSE 0.52 to 0.60 eV.",
        gain=(
            f"With {METHOD} levels of every structure it was 0.38 to 0.40 eV: "
            f"install them by {INSTALL_LEVELS}."
        ),
        alternative=LAYERS,
        alternative_shows=shows,
    )
