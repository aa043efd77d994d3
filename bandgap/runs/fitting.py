"""The fit of a method from every network of a source, and the mixture of the posteriors."""

from typing import Any

import numpy as np

from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, METHOD, n_levels
from bandgap.evaluation.error_context import TINY
from bandgap.foundation.errors import InputError
from bandgap.posterior import Posterior, mix
from bandgap.transfer import Method, TargetData
from bandgap.transfer.shared.baseline import fit_baseline, with_baseline
from bandgap.transfer.shared.metals import (
    fit_classifier,
    has_metals,
    semiconductors,
    with_metals,
)
from bandgap.transfer.shared.method import Fitting


def refuse_gaps_as_inputs(data: TargetData, levels: ElectronLevels, *, baseline: str = "") -> None:
    """Raise InputError where electron levels or the baseline are the gaps that are learned.

    They are the last columns of the features. They are the gaps where the root mean square
    difference is below `TINY` of the gaps' standard deviation.
    """
    kinds: tuple[ElectronLevels, ...] = (METHOD, HUECKEL) if levels == BOTH else (levels,)
    names = [f"{kind} electron levels" for kind in kinds for _ in range(n_levels(kind))]
    if baseline:
        names.append(f"the baseline {baseline}")
    spread_eV = float(data.gaps_eV.std())
    for name, values in zip(names[::-1], data.features.T[::-1], strict=False):
        difference_eV = float(np.sqrt(np.mean((values - data.gaps_eV) ** 2)))
        if difference_eV < TINY * spread_eV:
            raise InputError(
                f"The gaps to learn are those of {name}: they differ by {difference_eV:.2g} eV "
                f"(root mean square), and the gaps by {spread_eV:.2g} eV among themselves. The "
                "errors would say nothing of other gaps. Leave them out."
            )


def fit_members(method: Method, data: TargetData, config: Any, fitting: Fitting) -> Posterior:
    """Fit a method as `fit_gaps`; metals among the labels have a classifier.

    The method then learns the gaps of the semiconductors (`transfer.shared.metals`).
    """
    if not has_metals(data.gaps_eV):
        return fit_gaps(method, data, config, fitting)
    classifier, figures = fit_classifier(data, seed=fitting.seed, progress=fitting.progress)
    posterior = fit_gaps(method, semiconductors(data), config, fitting)
    return with_metals(posterior, classifier, figures)


def fit_gaps(method: Method, data: TargetData, config: Any, fitting: Fitting) -> Posterior:
    """Fit a method from the output `fitting.head` of every network, and return the mixture.

    The posteriors of the networks have equal weights. The first network uses the given seed, the
    others use seeds that are derived from it. A method that takes all networks together returns one
    posterior. Where the data have a baseline, a straight line in it is fitted first, together with
    the first network's prediction, and the method learns the residuals. With a checkpoint every
    network has its own file, from which a resumable method resumes.
    """
    models = [network[fitting.head] for network in fitting.networks]
    if data.baseline:
        column = data.features.shape[1] - 1
        line, residuals_eV = fit_baseline(
            models[0],
            data.features,
            data.gaps_eV,
            column=column,
            with_source=method.transfers,
        )
        residual_data = TargetData(data.features[:, :column], residuals_eV, groups=data.groups)
        posterior = fit_gaps(method, residual_data, config, fitting)
        return with_baseline(posterior, line, seed=fitting.seed)
    if method.together:
        return method.fit(models[0], data, config, fitting)
    return mix(
        [
            method.fit_features(model, data, config, fitting.of_network(i))
            for i, model in enumerate(models)
        ]
    )
