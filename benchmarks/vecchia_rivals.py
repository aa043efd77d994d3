"""Alternatives to a Vecchia likelihood: SVGP and VNNGP of GPyTorch, scikit-learn's exact process.

All have the same isotropic Matern kernel and are fitted to the residuals of a linear trend.
GPyTorch's models are trained by Adam at 0.01 with batches. 1,000 training rows are for validation:
training ends when their log density has not increased for `patience` passes. The state of the best
pass predicts, and the seconds are those up to it.
"""

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.vecchia.ordering import Floats
from benchmarks.vecchia_rows import Rows

VALIDATION_ROWS: Final = 1000
BATCH: Final = 256
RATE: Final = 0.01


@dataclass(frozen=True, eq=False)
class RivalPrediction:
    """Mean and sd (n,) of a new observation, CPU seconds of fit and prediction, and passes."""

    mean: Floats
    sd: Floats
    fit_s: float
    predict_s: float
    passes: int = 0


def subtract_line(train: Rows, test: Rows) -> tuple[Floats, Floats]:
    """Return residuals of a linear trend at the training rows, and its values at the test rows."""
    beta = np.linalg.lstsq(train.trend, train.y, rcond=None)[0]
    return train.y - train.trend @ beta, test.trend @ beta


def gpytorch_process(
    kind: str,
    train: Rows,
    test: Rows,
    *,
    nu: float,
    inducing: int,
    passes: int,
    patience: int,
    seed: int,
    progress: Progress = no_progress,
) -> RivalPrediction:
    """Fit "svgp" with `inducing` points, or "vnngp" with `inducing` neighbours.

    Raises ConfigError if GPyTorch is not installed.
    """
    try:
        import gpytorch
    except ImportError as error:
        raise ConfigError(
            "benchmark vecchia needs GPyTorch. Run pip install bandgap[bench], or use --no-rivals."
        ) from error
    residuals, line = subtract_line(train, test)
    torch.manual_seed(seed)
    n = max(len(residuals) - VALIDATION_ROWS, len(residuals) // 2)
    x = torch.from_numpy(train.points).float()
    y = torch.from_numpy(residuals).float()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GPyTorch warns if faiss is missing.
        model, step = (_svgp if kind == "svgp" else _vnngp)(
            gpytorch, x[:n], y[:n], likelihood, nu=nu, size=inducing
        )
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    best = -np.inf
    best_state = None
    since = 0
    spent = 0.0
    fit_s = 0.0
    done = best_pass = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GPyTorch warns of added jitter.
        while done < passes and since < patience:
            started = time.process_time()
            model.train()
            for loss in step():
                optimiser.zero_grad()
                loss().backward()
                optimiser.step()
            spent += time.process_time() - started
            mean, sd = _predicted(model, likelihood, x[n:])
            y_validation = y[n:].numpy()
            score = float(np.mean(-np.log(sd) - 0.5 * ((y_validation - mean) / sd) ** 2))
            done += 1
            since += 1
            if score > best + 1e-3:
                best = score
                best_state = _state(model, likelihood)
                since = 0
                best_pass = done
                fit_s = spent
            progress(Update(kind, done, passes, values={"log density": score}))
        if best_state is not None:
            model.load_state_dict(best_state[0])
            likelihood.load_state_dict(best_state[1])
        started = time.process_time()
        mean, sd = _predicted(model, likelihood, torch.from_numpy(test.points).float())
    return RivalPrediction(line + mean, sd, fit_s, time.process_time() - started, best_pass)


def sklearn_exact(train: Rows, test: Rows, *, nu: float, rows: int) -> RivalPrediction:
    """Fit scikit-learn's exact process to the first `rows` rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    subset = train.part(slice(rows))
    residuals, line = subtract_line(subset, test)
    kernel = ConstantKernel(float(residuals.var())) * Matern(3.0, nu=nu) + WhiteKernel(
        0.1 * float(residuals.var())
    )
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A length scale is at its bound.
        process = GaussianProcessRegressor(kernel).fit(subset.points, residuals)
    middle = time.process_time()
    mean, sd = process.predict(test.points, return_std=True)
    return RivalPrediction(line + mean, sd, middle - started, time.process_time() - middle)


def _state(*parts: Any) -> list[Any]:
    return [copy.deepcopy(part.state_dict()) for part in parts]


def _predicted(model: Any, likelihood: Any, x: Any) -> tuple[Floats, Floats]:
    model.eval()
    means = []
    sds = []
    with torch.no_grad():
        for first in range(0, len(x), 500):
            predictive = likelihood(model(x[first : first + 500]))
            means.append(predictive.mean.double().numpy())
            sds.append(predictive.stddev.double().numpy())
    return np.concatenate(means), np.concatenate(sds)


def _svgp(
    gpytorch: Any, x: Any, y: Any, likelihood: Any, *, nu: float, size: int
) -> tuple[Any, Callable[[], Any]]:
    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # gpytorch is untyped
        def __init__(self, points: Any) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            strategy = gpytorch.variational.VariationalStrategy(
                self, points, distribution, learn_inducing_locations=True
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=nu))

        def forward(self, points: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(points), self.covar_module(points)
            )

    model = Model(x[torch.randperm(len(x))[:size]].clone())
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))

    def one_pass() -> Any:
        order = torch.randperm(len(x))
        for first in range(0, len(x), BATCH):
            rows = order[first : first + BATCH]
            yield lambda rows=rows: -bound(model(x[rows]), y[rows])

    return model, one_pass


def _vnngp(
    gpytorch: Any, x: Any, y: Any, likelihood: Any, *, nu: float, size: int
) -> tuple[Any, Callable[[], Any]]:
    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # gpytorch is untyped
        def __init__(self, points: Any) -> None:
            distribution = gpytorch.variational.MeanFieldVariationalDistribution(len(points))
            strategy = gpytorch.variational.NNVariationalStrategy(
                self, points, distribution, k=size, training_batch_size=BATCH
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=nu))

        def forward(self, points: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(points), self.covar_module(points)
            )

        def __call__(self, points: Any, prior: bool = False, **more: Any) -> Any:
            return self.variational_strategy(x=points, prior=False, **more)

    model = Model(x)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))

    def loss() -> Any:
        output = model(None)
        return -bound(output, y[model.variational_strategy.current_training_indices])

    def one_pass() -> Any:
        for _ in range(model.variational_strategy._total_training_batches):
            yield loss

    return model, one_pass
