"""Peers of the benchmark on crystals: established features with models of scikit-learn.

A model without intervals gets those of a normal distribution. Its standard deviation is the root
mean square error of five-fold cross-validation on the training rows.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import DescriptorConfig, config_for
from bandgap.foundation.machine import few_blas_threads

Floats = NDArray[np.float64]
Rows = NDArray[np.floating[Any]]
Fit = Callable[[Rows, Floats, Rows, int], tuple[Floats, Floats]]

FOLDS: Final = 5
LENGTHS: Final = (1.0, 3.0, 10.0, 30.0)  # In units of the median distance.
PENALTIES: Final = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class Peer:
    """A peer: name, descriptor and fit.

    `fit` takes training features (n, p), gaps (n,) in eV, test features (m, p) and a seed. It
    returns means and standard deviations (m,) in eV of the test gaps. `package` is the optional
    package that the peer needs, "" for none.
    """

    name: str
    descriptor: Callable[[tuple[str, ...]], DescriptorConfig]  # From the elements of a set.
    fit: Fit
    package: str = ""

    @property
    def installed(self) -> bool:
        """Whether the package that it needs is installed."""
        return not self.package or importlib.util.find_spec(self.package) is not None


def _with_cross_validated_sd(make: Callable[[int], Any]) -> Fit:
    def fit(x: Rows, gaps: Floats, test: Rows, seed: int) -> tuple[Floats, Floats]:
        from sklearn.model_selection import KFold, cross_val_predict

        folds = KFold(FOLDS, shuffle=True, random_state=seed)
        with few_blas_threads():
            left_out = cross_val_predict(make(seed), x, gaps, cv=folds)
            mean = np.asarray(make(seed).fit(x, gaps).predict(test), dtype=np.float64)
        return mean, np.full(len(test), float(np.sqrt(np.mean((left_out - gaps) ** 2))))

    return fit


def _gaussian_process(x: Rows, gaps: Floats, test: Rows, seed: int) -> tuple[Floats, Floats]:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(x)
    inputs = scaler.transform(x)
    length = float(np.sqrt(x.shape[1]))
    kernel = ConstantKernel(1.0) * Matern(length, (0.05 * length, 100.0 * length), nu=1.5)
    kernel += WhiteKernel(0.1, (1e-4, 4.0))
    process = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )
    with few_blas_threads(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mean, sd = process.fit(inputs, gaps).predict(scaler.transform(test), return_std=True)
    return np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)


def _kernel_ridge(x: Rows, gaps: Floats, test: Rows, seed: int) -> tuple[Floats, Floats]:
    """Fit a Laplacian kernel; cross-validation chooses length and penalty."""
    from scipy.spatial.distance import cdist
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import KFold, cross_val_predict

    columns = np.flatnonzero(x.std(axis=0) > 0)
    distances, test_distances = (
        cdist(rows[:, columns], x[:, columns], "cityblock") for rows in (x, test)
    )
    unit = float(np.median(distances[np.triu_indices(len(x), 1)]))
    shift = float(gaps.mean())
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    candidates = []
    with few_blas_threads():
        for length in unit * np.array(LENGTHS):
            kernel = np.exp(-distances / length)
            for penalty in PENALTIES:
                model = KernelRidge(alpha=penalty, kernel="precomputed")
                left_out = cross_val_predict(model, kernel, gaps - shift, cv=folds) + shift
                rmse = float(np.sqrt(np.mean((left_out - gaps) ** 2)))
                candidates.append((rmse, length, penalty))
        error, length, penalty = min(candidates)
        model = KernelRidge(alpha=penalty, kernel="precomputed").fit(
            np.exp(-distances / length), gaps - shift
        )
        mean = np.asarray(model.predict(np.exp(-test_distances / length)) + shift, dtype=np.float64)
    return mean, np.full(len(test), error)


def _ridge(seed: int) -> Any:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 5, 22)))


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(300, max_features=1 / 3, random_state=seed)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(
        n_estimators=400,
        learning_rate=0.05,
        max_depth=4,
        subsample=0.7,
        max_features=0.3,
        random_state=seed,
    )


def _mbtr(elements: tuple[str, ...]) -> DescriptorConfig:
    return config_for(species=elements)


def _magpie(elements: tuple[str, ...]) -> DescriptorConfig:
    return DescriptorConfig(composition=True)


def _chgnet(elements: tuple[str, ...]) -> DescriptorConfig:
    return DescriptorConfig(potential="chgnet")


def _chgnet_two_layers(elements: tuple[str, ...]) -> DescriptorConfig:
    return DescriptorConfig(potential="chgnet-two-layers")


PEERS: Final = (
    Peer("MBTR, kernel ridge", _mbtr, _kernel_ridge),
    Peer("Magpie, random forest", _magpie, _with_cross_validated_sd(_forest)),
    Peer("Magpie, gradient boosting", _magpie, _with_cross_validated_sd(_boosting)),
    Peer("CHGNet features, Gaussian process", _chgnet, _gaussian_process, package="chgnet"),
    Peer(
        "CHGNet, two layers, Gaussian process",
        _chgnet_two_layers,
        _gaussian_process,
        package="chgnet",
    ),
    Peer("CHGNet features, ridge", _chgnet, _with_cross_validated_sd(_ridge), package="chgnet"),
)
