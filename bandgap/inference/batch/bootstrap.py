"""Random weights of the posterior bootstrap (block Dirichlet), and one weighted label per row.

Lee, Nam, Fong and Lee (2024), arXiv:2403.07282, algorithm 1 and appendix A: with n rows and pseudo
rows on the same inputs, u, u' two independent random balanced maps of the rows to L blocks,

    (v_1 .. v_L, v'_1 .. v'_L) ~ 2L Dirichlet(1, ..., 1, alpha / n, ..., alpha / n),
    w_i = v_u(i),  w'_i = v'_u'(i)

If L divides n, sum w + sum w' = 2n. The paper does not treat other L; here blocks have floor(n / L)
or ceil(n / L) rows and all weights are scaled to that total. The share sum w / 2n of the data is
Beta(L, L alpha / n).

Sample m has its own random streams. It depends on the seed and on m, not on the number of samples.
Every alpha uses the same uniforms in the same order: results of two alphas differ by alpha alone.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, logsumexp

from bandgap.foundation.errors import ConfigError

StreamName = Literal["weights", "head", "pseudo_noise", "order", "momentum"]
Floats = NDArray[np.float64]


def stream(
    seed: int, sample: int, name: StreamName, *, fold: int | None = None
) -> np.random.Generator:
    """Return the random generator for one purpose of one sample, and of one fold if given."""
    place = 0 if fold is None else fold + 1
    return np.random.default_rng(
        np.random.SeedSequence([seed, sample, get_args(StreamName).index(name), place])
    )


@dataclass(frozen=True, eq=False)
class PairedWeights:
    """Weights of n rows and of n pseudo rows, (n,) each, not negative; their total is 2n."""

    data: Floats
    pseudo: Floats


def block_weights(n: int, *, blocks: int, alpha: float, rng: np.random.Generator) -> PairedWeights:
    """Draw the weights of one sample of n rows.

    With `blocks` above n every row is a block of its own. alpha = 0 gives pseudo weights of exactly
    0. Gamma variates are drawn as logarithms, log G = log Gamma(c + 1) + log(U) / c, because at c =
    alpha / n = 1e-5 most variates are below the smallest float. Raises ConfigError for numbers of
    rows or blocks below 1 and for a negative alpha.
    """
    if n < 1 or blocks < 1 or not 0 <= alpha < np.inf:
        raise ConfigError(
            f"bootstrap weights: {n} rows, {blocks} blocks, alpha = {alpha}. Accepted: whole "
            "numbers from 1, an alpha from 0."
        )
    size = min(blocks, n)
    data_map = _balanced_map(n, size, rng)
    pseudo_map = _balanced_map(n, size, rng)
    uniforms = 1.0 - rng.random((3, size))  # in (0, 1]
    log_gamma = np.concatenate(
        [np.log(-np.log(uniforms[0])), _log_gamma(alpha / n, uniforms[1], uniforms[2])]
    )
    raw = np.exp(log_gamma - logsumexp(log_gamma))
    data = raw[:size][data_map]
    pseudo = raw[size:][pseudo_map]
    scale = 2.0 * n / (data.sum() + pseudo.sum())
    return PairedWeights(scale * data, scale * pseudo)


def collapse(y: Floats, pseudo: Floats, weights: PairedWeights) -> tuple[Floats, Floats]:
    """Return weights omega and labels t (n,) that replace rows and pseudo rows in a squared loss.

    w (y - f)^2 + w' (p - f)^2 equals omega (t - f)^2 plus a term that does not depend on f, with
    omega = w + w' and t = (w y + w' p) / omega. A row with omega = 0 gets t = p.
    """
    omega = weights.data + weights.pseudo
    share = np.divide(weights.data, omega, out=np.zeros_like(omega), where=omega > 0)
    return omega, pseudo + share * (y - pseudo)


def _balanced_map(n: int, blocks: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the block of every row (n,); block sizes differ by at most one, at random."""
    names = rng.permutation(blocks)
    return names[np.arange(n) % blocks][rng.permutation(n)]


def _log_gamma(shape: float, first: Floats, second: Floats) -> Floats:
    """Return logarithms of Gamma(shape) variates from two uniforms in (0, 1]; -inf at shape 0."""
    if shape == 0:
        return np.full(first.shape, -np.inf)
    return (
        np.log(gammaincinv(shape + 1.0, np.clip(first, 1e-300, 1.0 - 2**-53)))
        + np.log(second) / shape
    )
