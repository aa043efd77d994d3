"""Gaussian processes on the source's last hidden features: rows, diagnostics and records."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bandgap.inference import diagnostics
from bandgap.posterior import Diagnostics, Floats
from bandgap.posterior.protocol import PRIOR_DRAWS, thinned
from bandgap.research.posteriors.deep_kernel import DeepKernelPosterior
from bandgap.research.vecchia.gp import typical_scales, weak_process_priors
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.last_layer_problem import converged
from bandgap.transfer.shared.method import Scales, TargetData

LABELS = {"sigma2": "spread", "rho": "length", "nu": "smoothness", "tau2": "noise"}


def rows_of(
    source: SourceModel, data: TargetData, scales: Scales, *, seed: int
) -> DeepKernelPosterior:
    """Return the posterior without draws, with the training rows as the kernel uses them."""
    standardiser = standardiser_for(source, data.features, data.gaps_eV, **scales.scales)
    hidden = hidden_layers(source.params)
    return DeepKernelPosterior.of_rows(
        source.params,
        hidden,
        standardiser,
        data.features,
        data.gaps_eV.astype(np.float64),
        seed=seed,
    )


def with_draws(
    rows: DeepKernelPosterior,
    *,
    theta: Floats,
    beta: Floats,
    traces: Floats,
    names: list[str],
    predict_from: int,
    figures: Mapping[str, float],
    warnings: tuple[str, ...] = (),
    precision: Floats | None = None,
) -> DeepKernelPosterior:
    """Return the posterior with draws of its scales, with diagnostics and a record.

    Parameters
    ----------
    rows
        Posterior without draws.
    theta
        Draws of the scales.
    beta
        Draws of the trend.
    traces
        Log-parameters (chain, draw, k) of the chains, from which convergence is judged. The record
        has the length in units of the first principal component's sd, and both standard deviations
        in eV.
    names
        Names (k) of the log-parameters.
    predict_from
        Number of neighbours for predictions, 0 for all rows.
    figures, warnings
        Figures and warnings of the sampler.
    precision
        Precision (p, p) of beta given theta, where the mode is the only draw.
    """
    judged: dict[str, float] = {}
    if traces.shape[0] > 1 and traces.shape[1] >= 4:
        rhat = diagnostics.rhat(traces)
        ess = diagnostics.ess_bulk(traces)
        for i, name in enumerate(names):
            judged |= {f"rhat_{LABELS[name]}": float(rhat[i]), f"ess_{LABELS[name]}": float(ess[i])}
    judged, disagreements = converged(judged)
    recorded_draws = thinned(traces.shape[1])
    y_sd = rows.standardiser.y_sd_eV
    record = {}
    for i, name in enumerate(names):
        values = np.exp(traces[:, recorded_draws, i])
        record[f"trace.{LABELS[name]}"] = (
            y_sd * np.sqrt(values) if name in ("sigma2", "tau2") else values
        )
    record |= {f"prior.{name}": values[None] for name, values in _prior_draws(rows).items()}
    diagnostics_of_draws = Diagnostics({**figures, **judged}, (*warnings, *disagreements), record)
    return replace(
        rows,
        theta=theta,
        beta=beta,
        predict_from=predict_from,
        precision=precision,
        diagnostics=diagnostics_of_draws,
    )


def _prior_draws(rows: DeepKernelPosterior) -> dict[str, Floats]:
    """Return prior draws (k,) of the process's standard deviation in eV and of its length."""
    priors = weak_process_priors(typical_scales(rows.points, rows.trend, rows.gaps))
    rng = np.random.default_rng([rows.seed, 0x7A0])
    variances, lengths = (prior.draw(PRIOR_DRAWS, rng) for prior in priors)
    spreads = rows.standardiser.y_sd_eV * np.sqrt(variances)
    return {LABELS["sigma2"]: spreads, LABELS["rho"]: lengths}
