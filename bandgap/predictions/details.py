"""What the pages show of predictions beside the intervals: nearest known structures, and joint draws of the means.

Their size is bounded. Loads no torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.errors import InputError

MAX_DRAWS = 256
MAX_NUMBERS = 2_000_000  # of the joint draws: 8 MB

Floats = NDArray[np.float64]

ROWS = ("n_atoms", "distance", "percentile", "labelled")
KEPT = ("kept", "means_eV", "noise_variance")


@dataclass(frozen=True, eq=False)
class PredictionDetails:
    """One row for every row of the input; `kept` are the rows whose means were kept jointly: unlabelled, not refused.

    Distances are NaN and names empty for refused rows. Raises InputError where the parts do not fit together.
    """

    nearest: tuple[str, ...]  # id of the nearest training structure
    n_atoms: NDArray[np.int64]  # (n,), 0 for refused rows
    distance: Floats  # (n,), 1 - cosine to it
    percentile: Floats  # (n,), share of the training set that is nearer to its own nearest one
    labelled: NDArray[np.bool_]  # (n,): had a known gap when it was predicted
    kept: NDArray[np.int64]  # (k,)
    means_eV: NDArray[np.float32]  # (draw, k)
    noise_variance: Floats  # (k,), eV^2

    def __post_init__(self) -> None:
        n, k = len(self.nearest), self.kept.size
        shapes = {name: getattr(self, name).shape for name in (*ROWS, *KEPT)}
        expected = dict.fromkeys(ROWS, (n,)) | {"kept": (k,), "noise_variance": (k,)}
        wrong = [name for name, shape in expected.items() if shapes[name] != shape]
        if wrong or self.means_eV.ndim != 2 or self.means_eV.shape[1] != k:
            raise InputError(f"prediction details do not fit together: {n} names, shapes {shapes}.")

    def __len__(self) -> int:
        return len(self.nearest)


def keep_jointly(
    means_eV: ArrayLike, noise_variance: ArrayLike, rows: ArrayLike, *, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float32], Floats]:
    """Return rows, draws of their means and their noise variances, cut to the size that is stored.

    Of draws (draw, n) of structures whose places are `rows` (n,), at most `MAX_DRAWS` are kept, evenly spaced, and as
    many structures as `MAX_NUMBERS` holds; of more structures, a random choice that depends on the seed alone.
    """
    draws, noise = np.asarray(means_eV, dtype=np.float32), np.asarray(noise_variance, dtype=np.float64)
    places = np.asarray(rows, dtype=np.int64)
    every = np.linspace(0, len(draws) - 1, min(len(draws), MAX_DRAWS)).round().astype(int)
    chosen = chosen_of(places.size, draws=every.size, seed=seed)
    return places[chosen], np.ascontiguousarray(draws[every][:, chosen]), noise[chosen]


def chosen_of(n: int, *, draws: int, seed: int = 0) -> NDArray[np.int64]:
    """Return which of `n` structures are kept with so many draws each: all, or a random choice, in their order."""
    most = MAX_NUMBERS // max(draws, 1)
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def noise_variances(sds_eV: ArrayLike, n: int) -> Floats:
    """Return the expected noise variance (n,) in eV^2 of a mixture with sds (component,) or (component, n)."""
    sds = np.asarray(sds_eV, dtype=np.float64)
    return np.broadcast_to((sds**2).mean(axis=0), (n,)).copy()
