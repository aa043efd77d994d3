"""Three methods to choose from, with the errors that were measured on crystals like the user's.

The page Train shows them as cards: the proposed method, the one whose layers can be seen or a fast
one, and a baseline that others should beat. The errors are from the table of `measured_errors`.
Imports no torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import MOLECULES
from bandgap.sources.measured_errors import MEAN_GAP_RMSE_EV, MeasuredError, error_of
from bandgap.sources.proposed import FEATURES, LAYERS, Proposal, Target

Role = Literal["Recommended", "Shows layers", "Fast", "Baseline"]
RIDGE: Final = "last_layer_ridge"
FINE_TUNING: Final = "fine_tune"
GAUSSIAN_PROCESS: Final = "gaussian_process"
KERNEL_RIDGE: Final = "kernel_ridge"
TREES: Final = "gradient_boosting"
FOREST: Final = "random_forest"

ROLE_TEXTS: Final[Mapping[Role, str]] = {
    "Recommended": "Proposed for your crystals.",
    "Shows layers": "Its posterior shows which layers of the source model moved.",
    "Fast": "For a first look, in seconds.",
    "Baseline": "What is usual and simple: other methods should beat it.",
}


@dataclass(frozen=True)
class MethodCard:
    """A method in one of the roles, with its measured error.

    `measured` is its row in the table of measured errors on the kind of crystals that is most like
    the target; None where it was not measured together with the proposed method.
    """

    role: Role
    method: str
    measured: MeasuredError | None


def basis_sentence(cards: Sequence[MethodCard]) -> str:
    """Return on which crystals the errors of the cards were measured, "" without errors.

    Examples
    --------
    >>> from bandgap.sources.proposed import propose
    >>> target = Target({("Ba", "O", "Ti"): 90}, "PBE", n=70, has_metals=True)
    >>> basis_sentence(method_cards(target, propose(target)))[:80]
    'Errors (RMSE) as measured on inorganic perovskites with metals among them, GLLB-'
    """
    rows = [card.measured for card in cards if card.measured is not None]
    if not rows:
        return ""
    return (
        f"Errors (RMSE) as measured on {rows[0].kind} ({rows[0].conditions}), not on your data. "
        f"Always guessing their mean gap gives {MEAN_GAP_RMSE_EV[rows[0].kind]:.2f} eV."
    )


def method_cards(target: Target, proposal: Proposal) -> list[MethodCard]:
    """Return the cards of three different methods, that of the proposed one first.

    A method that was not measured with levels of the molecules has its error without them.
    """
    second: Role = "Fast"
    other_methods = [GAUSSIAN_PROCESS, KERNEL_RIDGE]
    if proposal.transfers:
        other_methods = [FEATURES, FINE_TUNING]
        if proposal.method != LAYERS:
            second, other_methods[0] = "Shows layers", LAYERS
        elif target.has_many_rows:
            other_methods[0] = RIDGE
    elif target.has_many_rows:
        other_methods = [TREES, FOREST]
    roles: tuple[Role, ...] = ("Recommended", second, "Baseline")
    levels: list[ElectronLevels] = [proposal.levels]
    if proposal.levels == MOLECULES:
        levels.append("none")
    cards: list[MethodCard] = []
    for role, name in zip(roles, [proposal.method, *other_methods], strict=True):
        first = cards[0].measured if cards else None
        rows = (
            error_of(
                target.kind,
                name,
                has_source=proposal.transfers,
                levels=choice,
                like=first,
                potentials=proposal.potentials,
                n=target.n,
            )
            for choice in levels
        )
        row = next((row for row in rows if row), None)
        if cards and not (first and row and row.measured_with(first)):
            row = None
        cards.append(MethodCard(role, name, row))
    return cards
