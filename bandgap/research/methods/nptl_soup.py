"""NPTL-Soup: one network, the average of the weights of NPTL's samples.

Lee and others (2024), section 5.3, with the greedy soup of Wortsman and others (2022): samples are
sorted by their negative log likelihood on held-out rows. Starting with the best, the next sample is
included if the network of the averaged weights is no worse with it. The uniform soup averages all
samples and uses held-out rows only for the noise. An average of weights is meaningful only if all
networks start from the same point, here the source and the probe. A soup has no spread: its
interval is noise alone.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation import citations
from bandgap.foundation.errors import ConfigError
from bandgap.inference.batch.kernels import Layers
from bandgap.posterior import Floats, NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.nptl import NptlConfig, plan_of, recipe_of
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.folds import Start, fit_sigma, row_nll
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.stacked import fit_stacked, mean_weights, stacked_posterior


@dataclass(frozen=True)
class NptlSoupConfig(NptlConfig):
    """NPTL's settings and the kind of soup.

    Parameters
    ----------
    soup
        "uniform" averages all networks, "greedy" some, and holds out a tenth of the rows (`sigma`
        "val"). The paper has "greedy"; "uniform" because a greedy soup needs held-out rows, and
        with few labels has one or two networks (methods, `nptl_soup`).
    """

    soup: Literal["uniform", "greedy"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start != "probed":
            raise ConfigError(
                "nptl_soup: start is 'fresh_head'. An average of weights means nothing where "
                "networks start from different points. Set start=probed."
            )
        if self.soup == "greedy" and self.sigma == "cv":
            raise ConfigError(
                "nptl_soup: a greedy soup is chosen by rows that no network was trained on, sigma "
                "is 'cv'. Set sigma=val, or soup=uniform."
            )


def fit(
    source: SourceModel, data: TargetData, config: NptlSoupConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train NPTL's samples on the rows (features (n, p), gaps in eV) and average their weights."""
    uniform = config.soup == "uniform"
    plan = plan_of(config if uniform else replace(config, sigma="val"))
    trained = fit_stacked(source, data, recipe_of(config), replace(plan, averaged=uniform), fitting)
    sigma_eV = trained.sigma_eV
    members = np.arange(config.samples)
    if not uniform:
        members, sigma_eV = greedy_soup(
            trained.start, trained.weights[0], data.gaps_eV[~trained.start.trained]
        )
    soup = mean_weights([layer[members] for layer in trained.weights[0]])
    figures = trained.figures | {"networks_in_the_soup": float(members.size)}
    return stacked_posterior(
        source,
        replace(trained, weights=[soup], sigma_eV=sigma_eV, figures=figures),
        seed=fitting.seed,
        warnings=(NO_SPREAD,),
    )


NO_SPREAD: Final = (
    "The networks were averaged into one: intervals contain the noise, not the uncertainty of the "
    "mean."
)


def greedy_soup(start: Start, weights: Layers, y_eV: Floats) -> tuple[NDArray[np.int64], float]:
    """Return the networks that the greedy soup averages, and its noise in eV.

    Held-out rows with gaps `y_eV` (held out,) choose them.
    """

    def score_and_sigma(index: NDArray[np.int64]) -> tuple[float, float]:
        means = start.held_out_eV(mean_weights([layer[index] for layer in weights]))
        sigma = fit_sigma(y_eV, means)
        return float(row_nll(y_eV, means, sigma=sigma).mean()), sigma

    single_scores = np.array(
        [score_and_sigma(np.array([k]))[0] for k in range(weights[0].shape[0])]
    )
    order = np.argsort(single_scores, kind="stable")
    members = order[:1]
    best, sigma_eV = score_and_sigma(members)
    for candidate in order[1:]:
        larger_soup = np.append(members, candidate)
        score, sigma = score_and_sigma(larger_soup)
        if score <= best:
            members = larger_soup
            best = score
            sigma_eV = sigma
    return members, sigma_eV


METHOD: Final = Method(
    name="nptl_soup",
    family="many trained networks",
    standing="research",
    title="Nonparametric transfer, averaged",
    summary=(
        "Averages the weights of nonparametric transfer's networks into one network. Its "
        "intervals contain only the noise."
    ),
    references=(
        citations.NPTL,
        'M. Wortsman et al., "Model soups: averaging weights of multiple fine-tuned models '
        'improves accuracy without increasing inference time", ICML 2022.',
    ),
    duration="about half a minute for 200 crystals on one core",
    cost=Cost(5.2, 27),
    config=NptlSoupConfig,
    fit=fit,
    new_elements=True,
)
