"""NPTL-Soup of the networks that held-out rows choose: `nptl_soup` with its greedy soup.

Lee and others (2024), section 5.3; Wortsman and others (2022), recipe 1. A tenth of the rows is
held out. The network of lowest held-out negative log likelihood comes first, and each next one is
included if the network of the averaged weights is no worse with it.
"""

from dataclasses import dataclass
from typing import Final, Literal

from bandgap.research.methods.nptl_soup import NptlSoupConfig, fit
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method


@dataclass(frozen=True)
class NptlGreedySoupConfig(NptlSoupConfig):
    """Settings of `nptl_soup`, whose `soup` is greedy here."""

    soup: Literal["greedy"] = "greedy"


METHOD: Final = Method(
    name="nptl_greedy_soup",
    family="many trained networks",
    standing="research",
    title="Nonparametric transfer, best networks averaged",
    summary=(
        "Averages the weights of those networks of nonparametric transfer that lower the error of"
        " held-out rows. Its intervals contain only the noise."
    ),
    duration="about half a minute for 200 crystals on one core",
    cost=Cost(5.2, 27),
    config=NptlGreedySoupConfig,
    fit=fit,
    new_elements=True,
)
