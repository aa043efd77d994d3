"""Table 4.2 of Ott (2022) as an analogue: flows by maximum likelihood, bootstrap and base measures.

The table has MiniBooNE, which is not at hand. Here flows learn the density of crystals of the demo:
pre-activations of the last hidden layer of the source's network, whitened, in their first principal
coordinates. Historical rows of the empirical base measure are other crystals, or molecules of the
source, which is the transfer that section 4.6 suggests.

The reported number is the thesis' one: the mean over draws of the posterior of the mean test
log-likelihood, where only the mean mu of the base density differs between draws (algorithm 3).
It has a closed form.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bandgap.datasets.demo import load_demo
from bandgap.datasets.table import learnable
from bandgap.inference.base_measure import BaseMeasure
from bandgap.research.flows.fitting import FittedFlows, FlowTraining, fit_flows
from bandgap.research.flows.masked_flow import FlowConfig, transform
from bandgap.research.flows.nonparametric import log_density
from benchmarks.studies.fits import demo_data
from benchmarks.studies.published_tables import cell
from benchmarks.studies.study import (
    Floats,
    Key,
    Statement,
    Values,
    below,
    study_of,
)
from benchmarks.weighted_conformal import last_hidden_inputs

ALPHA = 100.0
N_COORDINATES = 8
STOPPING_SHARE = 0.2
SETTING = "200 crystals"
QUANTITY = "mean test log-likelihood (nats)"
LIKELIHOOD = "maximum likelihood"
NAIVE = "naive WLB"
WLB = "shared flow, WLB"
NORMAL = "shared flow, NPL, normal base"
ALIKE = "shared flow, NPL, other crystals as base"
RELATED = "shared flow, NPL, molecules as base"
PRINTED = {
    LIKELIHOOD: "maximum likelihood",
    NAIVE: "naive WLB",
    WLB: "shared flow, WLB (alpha 0)",
    NORMAL: "shared flow, NPL alpha 100, Gaussian base",
    ALIKE: "shared flow, NPL alpha 100, empirical base",
}


def compute(
    seed: int, *, crystals: int, n: int, n_test: int, n_flows: int, max_epochs: int
) -> Values:
    """Fit all flows to one split; `n_flows` are those of the naive bootstrap."""
    rng = np.random.default_rng(seed)
    data = demo_data(crystals)
    molecules = load_demo("molecules")
    drawn = rng.permutation(len(molecules.records))[: len(data.table) - n - n_test]
    other = learnable(
        [molecules.records[i] for i in drawn],
        molecules.gaps_eV[drawn],
        descriptor=data.source.descriptor,
        n_jobs=1,
    )
    inputs = last_hidden_inputs(data.source, data.table.features)
    parts = np.split(inputs[rng.permutation(len(inputs))], (n, n + n_test))
    of_molecules = last_hidden_inputs(data.source, other.features)
    rows, test, alike, related = whitened(*parts, of_molecules)
    is_stopping = torch.arange(n) < round(STOPPING_SHARE * n)

    def fitted(base: BaseMeasure, *, n_flows: int = 1, bootstrap: bool = True) -> FittedFlows:
        training = FlowTraining(max_epochs=max_epochs, redraw=n_flows == 1, bootstrap=bootstrap)
        return fit_flows(
            rows,
            is_fitted=(~is_stopping).expand(n_flows, -1),
            is_stopping=is_stopping.expand(n_flows, -1),
            config=FlowConfig(N_COORDINATES),
            base=base,
            training=training,
            seed=seed,
        )

    def likelihood(flows: FittedFlows, *, drawn: bool = True) -> Floats:
        """Return the mean over flows and rows, and over draws of mu, of which C is the covariance.

        The mean of -|u - mu|^2 / 2 is -(|u - E mu|^2 + tr C) / 2.
        """
        with torch.no_grad():
            u, log_det = transform(flows.params, flows.config, flows.moments, test)
        trace = torch.diagonal(flows.base.covariance, dim1=1, dim2=2).sum(1).mean()
        mean = log_density(u, log_det, flows.base.mean, None).mean()
        return (mean - 0.5 * trace * drawn).numpy()

    naive = fitted(BaseMeasure(), n_flows=n_flows)
    values = {
        LIKELIHOOD: likelihood(fitted(BaseMeasure(), bootstrap=False), drawn=False),
        NAIVE: likelihood(naive, drawn=False),
        WLB: likelihood(fitted(BaseMeasure())),
        NORMAL: likelihood(fitted(BaseMeasure(ALPHA))),
        ALIKE: likelihood(fitted(BaseMeasure(ALPHA, alike))),
        RELATED: likelihood(fitted(BaseMeasure(ALPHA, related))),
    }
    return {Key(SETTING, name, QUANTITY): value for name, value in values.items()}


def whitened(training: Floats, *parts: Floats) -> list[Tensor]:
    """Return rows in the first principal coordinates of the training rows, with variance 1."""
    centre = training.mean(0)
    _, singular, vectors = np.linalg.svd(training - centre, full_matrices=False)
    axes = vectors[:N_COORDINATES].T * math.sqrt(len(training) - 1) / singular[:N_COORDINATES]
    return [torch.from_numpy((rows - centre) @ axes) for rows in (training, *parts)]


def printed(key: Key) -> Mapping[str, Any]:
    """Return the printed number."""
    name = PRINTED.get(key.method)
    return cell("pnn_table_4_2", "test_ll", "se", method=name) if name else {}


def statements(values: Values) -> list[Statement]:
    """Return the order of the methods."""
    texts = {
        "Of the test log-likelihoods, the naive WLB has a lower one than maximum likelihood.": (
            NAIVE,
            LIKELIHOOD,
        ),
        "Of the test log-likelihoods, WLB with a shared flow has a higher one than maximum "
        "likelihood.": (LIKELIHOOD, WLB),
        "Of the test log-likelihoods, a normal base measure has a higher one than none.": (
            WLB,
            NORMAL,
        ),
        "Of the test log-likelihoods, historical rows have a higher one than a normal base "
        "measure.": (NORMAL, ALIKE),
    }
    return [
        Statement(text, below(values, low, [high], QUANTITY, [SETTING]))
        for text, (low, high) in texts.items()
    ]


STUDY = study_of("pnn-4.2", compute, printed=printed, statements=statements)
