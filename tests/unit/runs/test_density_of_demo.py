"""The density of the demo's molecules: level of the p-values, and time of the five flows."""

import logging
import time

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.table import elements_of
from bandgap.descriptors import featurize
from bandgap.foundation.errors import Cancelled
from bandgap.foundation.progress import Progress, Update
from bandgap.inference.flows.fitting import FittedFlows, fit_flows
from bandgap.inference.flows.masked_flow import FlowConfig
from bandgap.runs.run_density import FeatureMap, fit_run_density
from bandgap.sources.stored import load_source

LOG = logging.getLogger(__name__)
N = 2_000
N_HELD_OUT = 600


@pytest.mark.slow
def test_p_values_of_held_out_molecules_hold_their_level() -> None:
    """Three splits: the share flagged at 5 % is 2 to 8 %, and p is uniform."""
    source = load_source(demo_source_folder())
    molecules = load_demo("molecules").records
    drawn = np.random.default_rng(0).permutation(len(molecules))[: N + N_HELD_OUT]
    records = [molecules[i] for i in drawn]
    features = featurize(records, source.descriptor).features
    elements = [elements_of(record) for record in records]
    shares = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(records))
        density = fit_run_density(
            source,
            features[order[:N]],
            has_network=True,
            elements=set().union(*elements),
            seed=seed,
        )
        held_out = order[N:]
        values = density.p_values(features[held_out], [elements[i] for i in held_out])
        assert np.isfinite(values.p).all()
        shares.append(float(np.mean(values.p <= 0.05)))
        p_of_test = kstest(values.p, "uniform").pvalue
        LOG.info("p up to 0.05: %.3f, Kolmogorov-Smirnov %.3g", shares[-1], p_of_test)
        assert p_of_test > 1e-3
        for part in (values.density, values.neighbours, values.distance, values.residual):
            assert np.mean(part <= 0.1) < 0.14  # a standard error is 0.014
    assert 0.02 <= np.median(shares) <= 0.08


@pytest.mark.slow
def test_five_flows_of_4000_molecules_take_less_than_90_s_of_one_core_and_can_be_cancelled() -> (
    None
):
    source = load_source(demo_source_folder())
    raw = featurize(load_demo("molecules").records[:4_000], source.descriptor).features
    features = FeatureMap.of_source(source, has_network=True)(raw)
    centred = features - features.mean(0)
    _, sds, directions = np.linalg.svd(centred, full_matrices=False)
    rows = torch.from_numpy(centred @ directions[:16].T / sds[:16] * 4_000**0.5)
    folds = np.arange(4_000) % 5
    is_fitted = torch.from_numpy(np.stack([folds != k for k in range(5)]))
    epochs: list[int] = []

    def record(update: Update) -> None:
        epochs.append(update.done)

    def cancel(update: Update) -> None:
        if update.done == 2:
            raise Cancelled

    def fit(progress: Progress) -> FittedFlows:
        return fit_flows(
            rows,
            is_fitted=is_fitted,
            is_stopping=~is_fitted,
            config=FlowConfig(16),
            progress=progress,
        )

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        started = time.process_time()
        flows = fit(record)
        assert time.process_time() - started < 90
    finally:
        torch.set_num_threads(threads)
    assert epochs == list(range(1, flows.n_epochs + 1))
    with pytest.raises(Cancelled):
        fit(cancel)
