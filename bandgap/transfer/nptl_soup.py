r"""NPTL-Soup: one network, the average of the weights of NPTL's samples.

Lee and others (2024), section 5.3, with the greedy soup of Wortsman and others (2022): samples are sorted by their
negative log likelihood on held-out rows; starting with the best, each next one is kept if the network of the averaged
weights is no worse with it. The uniform soup averages all of them and needs no held-out rows but those of the noise.
An average of weights means something only where all networks start from the same point, the source and the probe. A
soup has no spread: its interval is noise alone.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.batch.kernels import Layers
from bandgap.posterior import Floats, NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.nptl import NptlConfig, plan_of, recipe_of
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import Start, fit_sigma, row_nll
from bandgap.transfer.shared.method import Method, TargetData
from bandgap.transfer.shared.stacked import fit_stacked, mean_weights, stacked_posterior


@dataclass(frozen=True)
class NptlSoupConfig(NptlConfig):
    """NPTL's settings and the kind of soup; "greedy" holds out a tenth of the rows (`sigma` "val")."""

    soup: Literal["uniform", "greedy"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start != "probed":
            raise ConfigError(
                "nptl_soup: start is 'fresh_head'. An average of weights means nothing where networks start from "
                "different points. Set start=probed."
            )
        if self.soup == "greedy" and self.sigma == "cv":
            raise ConfigError(
                "nptl_soup: a greedy soup is chosen by rows that no network was trained on, sigma is 'cv'. Set "
                "sigma=val, or soup=uniform."
            )


def fit(
    source: SourceModel,
    data: TargetData,
    config: NptlSoupConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> NetworkPosterior:
    """Train NPTL's samples on the target's training rows (features (n, p), gaps in eV) and average their weights."""
    uniform = config.soup == "uniform"
    plan = plan_of(config if uniform else replace(config, sigma="val"))
    found = fit_stacked(
        source,
        data,
        recipe_of(config),
        replace(plan, averaged=uniform),
        seed=seed,
        device=device,
        progress=progress,
    )
    sigma_eV, used = found.sigma_eV, np.arange(config.samples)
    if not uniform:
        used, sigma_eV = greedy_soup(
            found.start, found.weights[0], data.gaps_eV[~found.start.trained]
        )
    soup = mean_weights([layer[used] for layer in found.weights[0]])
    figures = found.figures | {"networks_in_the_soup": float(used.size)}
    return stacked_posterior(
        source,
        replace(found, weights=[soup], sigma_eV=sigma_eV, figures=figures),
        seed=seed,
        warnings=(NO_SPREAD,),
    )


NO_SPREAD = "The networks were averaged into one: intervals hold the noise, not what the data leave open about the mean."


def greedy_soup(start: Start, weights: Layers, y_eV: Floats) -> tuple[NDArray[np.int64], float]:
    """Return which networks the greedy soup averages, and its noise in eV, by held-out rows with gaps (held out,)."""

    def judged(index: NDArray[np.int64]) -> tuple[float, float]:
        means = start.held_out_eV(mean_weights([layer[index] for layer in weights]))
        sigma = fit_sigma(y_eV, means)
        return float(row_nll(y_eV, means, sigma=sigma).mean()), sigma

    alone = np.array([judged(np.array([k]))[0] for k in range(weights[0].shape[0])])
    order = np.argsort(alone, kind="stable")
    used = order[:1]
    best, sigma_eV = judged(used)
    for candidate in order[1:]:
        tried = np.append(used, candidate)
        score, sigma = judged(tried)
        if score <= best:
            used, best, sigma_eV = tried, score, sigma
    return used, sigma_eV


METHOD: Final = Method(
    name="nptl_soup",
    family="many trained networks",
    standing="research",
    title="Nonparametric transfer, averaged",
    summary=(
        "Averages the weights of nonparametric transfer's networks into one network. Its "
        "intervals contain only the noise."
    ),
    duration="about half a minute for 200 crystals on one core",
    cost=Cost(5.2, 27),
    config=NptlSoupConfig,
    fit=fit,
    new_elements=True,
)
