"""Three methods to choose from, with the errors that were measured on crystals like the user's.

The page Train shows them as cards: the proposed method, a fast one, and a baseline that any method
should beat. The errors are from the table of `measured_errors`. Imports no torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bandgap.descriptors.electron_levels import MOLECULES
from bandgap.sources.measured_errors import MEAN_GAP_RMSE_EV, MeasuredError, error_of
from bandgap.sources.proposed import FEATURES, LAYERS, Proposal, Target

Role = Literal["Recommended", "Fast", "Baseline"]
RIDGE: Final = "last_layer_ridge"
GAUSSIAN_PROCESS: Final = "gaussian_process"
KERNEL_RIDGE: Final = "kernel_ridge"

WITHOUT_LEVELS: Final = "without levels of the molecules"

ROLE_TEXTS: Final[Mapping[Role, str]] = {
    "Recommended": "Proposed for your crystals.",
    "Fast": "For a first look, in seconds.",
    "Baseline": "Uses no source model and assumes little: other methods should beat it.",
}


@dataclass(frozen=True)
class MethodCard:
    """A method in one of the three roles, with its measured error.

    Attributes
    ----------
    role, method
        The role and the name of the method.
    measured
        Its row in the table of measured errors on the kind of crystals that is most like the
        target, None where it was not measured.
    condition
        What was different in the measurement, "" where nothing was.
    """

    role: Role
    method: str
    measured: MeasuredError | None
    condition: str = ""

    @property
    def error_eV(self) -> float | None:
        """The measured root mean square error in eV, None where it was not measured."""
        return None if self.measured is None else self.measured.rmse_eV

    @property
    def sentence(self) -> str:
        """The measured error in words, "" where it was not measured."""
        if self.measured is None:
            return ""
        row = self.measured
        details = ", ".join(filter(None, [row.conditions, self.condition]))
        return (
            f"RMSE {row.range_text} (mean gap: {MEAN_GAP_RMSE_EV[row.kind]:.2f} eV) on {row.kind} "
            f"({details})."
        )


def comparison_problem(cards: Sequence[MethodCard]) -> str:
    """Return why the errors of cards cannot be compared, "" where they can."""
    rows = [card.measured for card in cards if card.measured is not None]
    if all(row.measured_with(rows[0]) for row in rows):
        return ""
    return "Not comparable: the crystals or the splits differ."


def method_cards(target: Target, proposal: Proposal) -> list[MethodCard]:
    """Return the cards of the proposed, the fast and the baseline method.

    A method has one card: if it is proposed, the next one is the fast one. A method that was not
    measured with levels of the molecules has its error without them. Errors of the last two cards
    are of the same crystals as that of the first one, where they were measured together.
    """
    fast = [RIDGE] if proposal.transfers else [GAUSSIAN_PROCESS]
    if proposal.method == LAYERS and not target.has_many_rows:
        fast = [FEATURES, *fast]
    methods: dict[Role, str] = {
        "Recommended": proposal.method,
        "Fast": next(method for method in fast if method != proposal.method),
        "Baseline": KERNEL_RIDGE,
    }
    cards: list[MethodCard] = []
    for role, name in methods.items():
        like = cards[0].measured if cards else None
        row = error_of(
            target.kind,
            name,
            has_source=proposal.transfers,
            levels=proposal.levels,
            like=like,
            potentials=proposal.potentials,
            n=target.n,
        )
        condition = ""
        if row is None and proposal.levels == MOLECULES:
            row = error_of(
                target.kind,
                name,
                has_source=proposal.transfers,
                like=like,
                potentials=proposal.potentials,
                n=target.n,
            )
            condition = WITHOUT_LEVELS
        cards.append(MethodCard(role, name, row, condition))
    return cards
