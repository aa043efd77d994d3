"""What Gaussian processes on the source's last hidden features share: rows, and the words about their chains."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bandgap.inference import diagnostics
from bandgap.inference.vecchia.gp import typical_scales, weak_process_priors
from bandgap.posterior import DeepKernelPosterior, Diagnostics, Floats
from bandgap.posterior.protocol import PRIOR_DRAWS, thinned
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.last_layer_problem import converged
from bandgap.transfer.shared.method import Scales, TargetData

WORDS = {"sigma2": "spread", "rho": "length", "nu": "smoothness", "tau2": "noise"}


def rows_of(
    source: SourceModel, data: TargetData, scales: Scales, *, seed: int
) -> DeepKernelPosterior:
    """Return the posterior without draws: the target's training rows as the kernel sees them."""
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
    """Return the posterior with draws that are kept, judged by the chains' log-parameters, traces (chain, draw, k).

    Where the mode is the only draw, `precision` (p, p) is that of beta given it. Pages draw traces: the length in units
    of the first principal component's sd, both standard deviations in eV.
    """
    judged: dict[str, float] = {}
    if traces.shape[0] > 1 and traces.shape[1] >= 4:
        rhat, ess = diagnostics.rhat(traces), diagnostics.ess_bulk(traces)
        for i, name in enumerate(names):
            judged |= {f"rhat_{WORDS[name]}": float(rhat[i]), f"ess_{WORDS[name]}": float(ess[i])}
    judged, said = converged(judged)
    some, y_sd = thinned(traces.shape[1]), rows.standardiser.y_sd_eV
    record = {}
    for i, name in enumerate(names):
        values = np.exp(traces[:, some, i])
        record[f"trace.{WORDS[name]}"] = (
            y_sd * np.sqrt(values) if name in ("sigma2", "tau2") else values
        )
    record |= {f"prior.{name}": values[None] for name, values in _prior_draws(rows).items()}
    found = Diagnostics({**figures, **judged}, (*warnings, *said), record)
    return replace(
        rows,
        theta=theta,
        beta=beta,
        predict_from=predict_from,
        precision=precision,
        diagnostics=found,
    )


def _prior_draws(rows: DeepKernelPosterior) -> dict[str, Floats]:
    """Return draws (k,) of the process's standard deviation in eV and of its length from their log-normal priors."""
    priors = weak_process_priors(typical_scales(rows.points, rows.trend, rows.gaps))
    rng = np.random.default_rng([rows.seed, 0x7A0])
    variances, lengths = (prior.draw(PRIOR_DRAWS, rng) for prior in priors)
    spreads = rows.standardiser.y_sd_eV * np.sqrt(variances)
    return {WORDS["sigma2"]: spreads, WORDS["rho"]: lengths}
