"""Which source, method and electron levels are proposed for labelled structures, and on what measurement; no torch.

The one place of this rule: the page Train, `bandgap transfer` and `transfer_run` ask `propose`. Measured, RMSE in eV:

- organic crystals with PBE gaps (OMDB), from the shipped molecules, 100 labels, 760 held out, one to five training
  sets: `feature_gp` 0.38 to 0.40 with GFN1-xTB levels and 0.52 to 0.60 without, `btl_pcp_pe` 0.43 and 0.54 to 0.59. So
  too where an eighth of the crystals hold elements that the molecules lack;
- inorganic crystals of the Materials Project with carbon and hydrogen, PBE, 140 labels, 69 held out: without a source
  `stacking` 0.92, a Gaussian process 0.97, from the shipped source of inorganic crystals `feature_gp` 0.89. On 69
  crystals these are not told apart, so nothing is gained by a source; neither is on perovskites. Levels were not
  measured with these methods there, and take many seconds for each crystal, so none are proposed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bandgap.descriptors.electron_levels import METHOD, ElectronLevels, tight_binding_gaps_problem

MOST: Final = 0.8  # of the structures, whose elements a source must know to be proposed, or that must be organic
MOST_ROWS: Final = (
    2_000  # to learn from: `feature_gp` works on several matrices of that many rows and columns
)
NON_METALS: Final = frozenset(["H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I"])

LAYERS: Final = "btl_pcp_pe"  # the method whose posterior shows which layers moved
FEATURES: Final = "feature_gp"
WITHOUT_SOURCE: Final = "stacking"
INSTALL_LEVELS: Final = (
    "`pip install -c constraints.txt '.[xtb]'` in the folder of bandgap's README"
)

_ON_ORGANIC: Final = "organic crystals with PBE gaps (100 labelled, 760 held out)"
_ON_INORGANIC: Final = (
    "inorganic crystals with carbon and hydrogen, PBE (140 labelled, 69 held out)"
)


@dataclass(frozen=True)
class Target:
    """Labelled structures as far as a proposal depends on them.

    `element_sets` counts the structures by their elements, `n` is how many are to be learned from (None: most of them).
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
        """Whether most structures have carbon and hydrogen, and no metal."""
        organic = sum(
            count
            for elements, count in self.element_sets.items()
            if {"C", "H"} <= set(elements) <= NON_METALS
        )
        return 0 < MOST * self.total <= organic

    @property
    def has_many_rows(self) -> bool:
        """Whether there are more rows to learn from than `feature_gp` is made for."""
        return (self.total if self.n is None else self.n) > MOST_ROWS


@dataclass(frozen=True)
class Proposal:
    """What is proposed: a transfer or none, the method, electron levels, why, and the errors that were measured.

    `gain` says what electron levels would gain where they are not installed, "" elsewhere. `alternative` is another
    method to look at, and `alternative_shows` what it alone shows.
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
        """All of it in words, but for the method's name."""
        return " ".join(
            filter(None, (self.reason, self.measured, self.gain, self.alternative_shows))
        )


def knows_most(known: int, total: int) -> bool:
    """Return whether a source that knows all elements of `known` structures is proposed for `total`.

    >>> knows_most(2596, 2987), knows_most(0, 353)
    (True, False)
    """
    return known >= MOST * total


def propose(
    target: Target,
    *,
    transfers: bool | None = None,
    n_known: int = 0,
    levels_installed: bool = False,
) -> Proposal:
    """Return what is proposed for a target; `levels_installed` says whether electron levels can be computed.

    `transfers` says whether a source is given (None: propose one where it knows all elements of `n_known` structures,
    if these are most).

    >>> organic = Target({("C", "H", "N"): 90, ("C", "Br", "H"): 10}, "PBE", n=70)
    >>> found = propose(organic, n_known=90, levels_installed=True)
    >>> found.transfers, found.method, found.levels
    (True, 'feature_gp', 'GFN1-xTB')
    """
    if transfers is None:
        transfers = knows_most(n_known, target.total)
    if not transfers:
        return _without_source()
    if tight_binding_gaps_problem(target.level_of_theory):
        return Proposal(
            True,
            LAYERS,
            "none",
            f"The gaps are of {target.level_of_theory}: {METHOD} levels would nearly be the answer, and are left out. "
            "This method shows which layers of the source model moved.",
            "",
        )
    if target.has_many_rows:
        return Proposal(
            True,
            LAYERS,
            "none",
            f"More than {MOST_ROWS:,} structures are to be learned from, for which a Gaussian process on all of them "
            "takes too much memory and time.",
            "",
        )
    return _features_of_source(target, levels_installed=levels_installed)


def _without_source() -> Proposal:
    return Proposal(
        False,
        WITHOUT_SOURCE,
        "none",
        "Without a source model three methods are weighed by crystals that each had not seen.",
        f"Measured on {_ON_INORGANIC}: RMSE 0.92 eV, with a source model of inorganic crystals 0.89 eV, which is no "
        "clear difference.",
    )


def _features_of_source(target: Target, *, levels_installed: bool) -> Proposal:
    """Return the proposal of a Gaussian process on the source's features, with levels where they pay."""
    shows = (
        "Bayesian transfer with a penalized complexity prior (0.43 eV with levels, 0.54 to 0.59 eV without) alone "
        "shows which layers moved: the posterior of c. Tick it too to have both."
    )
    if not target.is_organic:
        return Proposal(
            True,
            FEATURES,
            "none",
            "A Gaussian process on the source model's features takes seconds and had the least error of all transfers.",
            f"Measured on {_ON_INORGANIC}: RMSE 0.89 eV from a source of inorganic crystals.",
            alternative=LAYERS,
            alternative_shows="Bayesian transfer with a penalized complexity prior alone shows which layers moved: the "
            "posterior of c.",
        )
    if levels_installed:
        return Proposal(
            True,
            FEATURES,
            METHOD,
            f"A Gaussian process on the source model's features and on {METHOD} levels, which take about a second for "
            "each structure.",
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
        gain=f"With {METHOD} levels of every structure it was 0.38 to 0.40 eV: install them by {INSTALL_LEVELS}.",
        alternative=LAYERS,
        alternative_shows=shows,
    )
