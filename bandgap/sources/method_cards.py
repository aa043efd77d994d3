"""Three methods to choose from, with the errors that were measured on crystals like the user's.

The page Train shows them as cards: the proposed method, a fast one, and a baseline that any method
should beat. The errors are from docs/explanation/which-source-and-method.md, which says how they
were measured. Imports no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bandgap.descriptors.electron_levels import MOLECULES, tight_binding_gaps_problem
from bandgap.sources.proposed import (
    FEATURES,
    LAYERS,
    MIN_SHARE,
    WITHOUT_SOURCE,
    Proposal,
    Target,
)

Role = Literal["Recommended", "Fast", "Baseline"]
CrystalKind = Literal[
    "molecular crystals with tight-binding gaps",
    "PBE gaps of organic crystals, described by their molecules",
    "lead-iodide perovskites with hybrid gaps",
    "inorganic crystals with carbon and hydrogen, PBE",
    "crystals of any elements, PBE",
]

RIDGE: Final = "last_layer_ridge"
GAUSSIAN_PROCESS: Final = "gaussian_process"
KERNEL_RIDGE: Final = "kernel_ridge"

N_MEASURED: Final = 100  # labelled crystals of the measurements
WITHOUT_LEVELS: Final = "without levels of the molecules"

ROLE_TEXTS: Final[Mapping[Role, str]] = {
    "Recommended": "Proposed for your crystals.",
    "Fast": "For a first look, in seconds.",
    "Baseline": "Uses no source model and assumes little: other methods should beat it.",
}

# Mean RMSE in eV over three splits with N_MEASURED labelled crystals, by kind, whether a source
# model is used, and method.
MEASURED_EV: Final[Mapping[tuple[CrystalKind, bool], Mapping[str, float]]] = {
    ("molecular crystals with tight-binding gaps", True): {
        LAYERS: 0.383,
        FEATURES: 0.389,
        RIDGE: 0.452,
        KERNEL_RIDGE: 0.557,
    },
    ("PBE gaps of organic crystals, described by their molecules", True): {
        FEATURES: 0.598,
        RIDGE: 0.604,
        KERNEL_RIDGE: 0.654,
    },
    ("lead-iodide perovskites with hybrid gaps", False): {
        WITHOUT_SOURCE: 0.229,
        GAUSSIAN_PROCESS: 0.230,
        KERNEL_RIDGE: 0.243,
    },
    ("inorganic crystals with carbon and hydrogen, PBE", True): {
        FEATURES: 1.114,
        RIDGE: 1.185,
        KERNEL_RIDGE: 1.152,
    },
    ("inorganic crystals with carbon and hydrogen, PBE", False): {
        WITHOUT_SOURCE: 1.131,
        GAUSSIAN_PROCESS: 1.142,
        KERNEL_RIDGE: 1.146,
    },
    ("crystals of any elements, PBE", False): {
        WITHOUT_SOURCE: 1.228,
        GAUSSIAN_PROCESS: 1.280,
        KERNEL_RIDGE: 1.226,
    },
}

# The same with levels of the molecules as further features, over five splits, with chgnet.
MEASURED_WITH_MOLECULES_EV: Final[Mapping[CrystalKind, Mapping[str, float]]] = {
    "lead-iodide perovskites with hybrid gaps": {WITHOUT_SOURCE: 0.181},
}


@dataclass(frozen=True)
class MethodCard:
    """A method in one of the three roles, with its measured error.

    Attributes
    ----------
    role, method
        The role and the name of the method.
    error_eV
        Measured root mean square error in eV on crystals of `kind`, None where it was not measured.
    kind
        The measured kind of crystals that is most like the target.
    condition
        What was different in the measurement, "" where nothing was.
    """

    role: Role
    method: str
    error_eV: float | None
    kind: CrystalKind
    condition: str = ""

    @property
    def sentence(self) -> str:
        """The measured error in words, "" where it was not measured."""
        if self.error_eV is None:
            return ""
        details = ", ".join(filter(None, [f"{N_MEASURED} labelled", self.condition]))
        return f"RMSE {self.error_eV:.2f} eV on {self.kind} ({details})."


def kind_of(target: Target) -> CrystalKind:
    """Return the measured kind of crystals that is most like a target.

    >>> kind_of(Target({("C", "H", "I", "N", "Pb"): 9, ("C", "H", "Pb"): 1}, "HSE06"))
    'lead-iodide perovskites with hybrid gaps'
    """
    if tight_binding_gaps_problem(target.level_of_theory):
        return "molecular crystals with tight-binding gaps"
    if target.is_organic:
        return "PBE gaps of organic crystals, described by their molecules"
    if _share_with(target, {"Pb", "I"}) >= MIN_SHARE:
        return "lead-iodide perovskites with hybrid gaps"
    if _share_with(target, {"C", "H"}) >= MIN_SHARE:
        return "inorganic crystals with carbon and hydrogen, PBE"
    return "crystals of any elements, PBE"


def method_cards(target: Target, proposal: Proposal) -> list[MethodCard]:
    """Return the cards of the proposed, the fast and the baseline method.

    A method has one card: if it is proposed, the next one is the fast one. A method that was not
    measured with levels of the molecules has its error without them.
    """
    fast = [RIDGE] if proposal.transfers else [GAUSSIAN_PROCESS]
    if proposal.method == LAYERS and not target.has_many_rows:
        fast = [FEATURES, *fast]
    methods: dict[Role, str] = {
        "Recommended": proposal.method,
        "Fast": next(method for method in fast if method != proposal.method),
        "Baseline": KERNEL_RIDGE,
    }
    kind = kind_of(target)
    plain = MEASURED_EV.get((kind, proposal.transfers), {})
    with_levels: Mapping[str, float] = {}
    if proposal.levels == MOLECULES:
        with_levels = MEASURED_WITH_MOLECULES_EV.get(kind, {})
    elif proposal.levels != "none":  # not measured, with or without such levels
        plain = {}
    cards = []
    for role, name in methods.items():
        is_plain = name in plain and name not in with_levels
        condition = WITHOUT_LEVELS if is_plain and proposal.levels == MOLECULES else ""
        error_eV = with_levels.get(name, plain.get(name))
        cards.append(MethodCard(role, name, error_eV, kind, condition))
    return cards


def _share_with(target: Target, symbols: set[str]) -> float:
    """Return the share of structures that contain all these elements."""
    n = sum(count for elements, count in target.element_sets.items() if symbols <= set(elements))
    return n / max(target.total, 1)
