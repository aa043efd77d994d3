r"""The noise of a mixture of networks: one standard deviation for all, from rows that they were not trained on.

With K networks of equal weight, p(y | x) = (1 / K) sum_k N(y; f_k(x), sigma^2); sigma minimises the mean of -log p over
the held-out rows (Lee and others 2024 have no noise: their examples are classes). It is below the root mean square
error, since the spread of the f_k accounts for part of that.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

Floats = NDArray[np.float64]

LEAST, MOST, GRID = 1e-3, 10.0, 33  # of sigma, relative to the rows' standard deviation; places looked at first
_LOG_2PI = float(np.log(2.0 * np.pi))


def row_nll(y: Floats, means: Floats, *, sigma: float) -> Floats:
    """Return -log p (n,) of y (n,) under the mixture with means (network, n)."""
    terms = -0.5 * ((y - means) / sigma) ** 2 - np.log(sigma) - 0.5 * _LOG_2PI
    result: Floats = np.log(means.shape[0]) - logsumexp(terms, axis=0)
    return result


def fit_sigma(y: Floats, means: Floats) -> float:
    """Return the sigma that minimises the mean -log p of rows y (n,) under the mixture with means (network, n)."""
    unit = max(float(y.std()), 1e-9)

    def value(log_sigma: float) -> float:
        return float(row_nll(y, means, sigma=unit * float(np.exp(log_sigma))).mean())

    places = np.linspace(np.log(LEAST), np.log(MOST), GRID)
    best = int(np.argmin([value(place) for place in places]))
    around = (places[max(0, best - 1)], places[min(GRID - 1, best + 1)])
    found = minimize_scalar(value, bounds=around, method="bounded", options={"xatol": 1e-6})
    return unit * float(np.exp(found.x))


def choose(y: Floats, means: Floats, *, default: int) -> tuple[int, Floats, Floats]:
    """Choose among settings by held-out rows: y (n,) and means (setting, network, n).

    Returns the index chosen, and each setting's sigma and mean -log p at it. The default (an index) is left only for a
    setting whose gain, paired by row, exceeds its standard error.
    """
    sigmas = np.array([fit_sigma(y, own) for own in means])
    scores = np.stack([row_nll(y, own, sigma=s) for own, s in zip(means, sigmas, strict=True)])
    best = int(np.argmin(scores.mean(1)))
    gain = scores[default] - scores[best]
    left = gain.mean() > gain.std(ddof=1) / np.sqrt(y.size) if y.size > 1 else False
    return (best if left else default), sigmas, scores.mean(1)
