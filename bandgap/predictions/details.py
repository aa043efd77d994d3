"""Details of predictions for the dashboard: nearest training structures, and joint draws of the
means.

The size of the joint draws is bounded. Loads no torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.errors import InputError

MAX_DRAWS = 256
MAX_NUMBERS = 2_000_000  # of the joint draws: 8 MB

Floats = NDArray[np.float64]

ROWS = ("n_atoms", "distance", "percentile", "labelled")
# Fields with a value for each row of the joint draws.
JOINT = (
    "joint_rows",
    "means_eV",
    "noise_variance",
)


@dataclass(frozen=True, eq=False)
class PredictionDetails:
    """Details with one value for every row of the input.

    `joint_rows` are the rows with joint draws of the means: unlabelled and not refused. Distances
    are NaN and names empty for refused rows. Raises InputError where the shapes do not fit
    together.
    """

    nearest: tuple[str, ...]  # id of the nearest training structure
    n_atoms: NDArray[np.int64]  # (n,), 0 for refused rows
    distance: Floats  # (n,), 1 - cosine to it
    percentile: Floats  # (n,), share of training structures with a smaller nearest distance
    labelled: NDArray[np.bool_]  # (n,), whether the gap was known when it was predicted
    joint_rows: NDArray[np.int64]  # (k,)
    means_eV: NDArray[np.float32]  # (draw, k)
    noise_variance: Floats  # (k,), eV^2

    def __post_init__(self) -> None:
        n = len(self.nearest)
        k = self.joint_rows.size
        shapes = {name: getattr(self, name).shape for name in (*ROWS, *JOINT)}
        expected = dict.fromkeys(ROWS, (n,)) | {"joint_rows": (k,), "noise_variance": (k,)}
        wrong = [name for name, shape in expected.items() if shapes[name] != shape]
        if wrong or self.means_eV.ndim != 2 or self.means_eV.shape[1] != k:
            raise InputError(f"prediction details do not fit together: {n} names, shapes {shapes}.")

    def __len__(self) -> int:
        return len(self.nearest)


def joint_subset(
    means_eV: ArrayLike, noise_variance: ArrayLike, rows: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float32], Floats]:
    """Return rows, draws of their means and their noise variances, reduced to the size that is
    stored.

    At most `MAX_DRAWS` draws remain, evenly spaced, and at most `MAX_NUMBERS` numbers in all. If
    there are too many structures, a random subset is taken, always the same one.

    Parameters
    ----------
    means_eV
        Draws of the means, (draw, n), in eV.
    noise_variance
        Expected noise variance of a label, (n,), in eV^2.
    rows
        Rows of the n structures in the input, (n,).
    """
    draws = np.asarray(means_eV, dtype=np.float32)
    noise = np.asarray(noise_variance, dtype=np.float64)
    row_numbers = np.asarray(rows, dtype=np.int64)
    draw_numbers = np.linspace(0, len(draws) - 1, min(len(draws), MAX_DRAWS)).round().astype(int)
    subset = subset_of_structures(row_numbers.size, draws=draw_numbers.size)
    return row_numbers[subset], np.ascontiguousarray(draws[draw_numbers][:, subset]), noise[subset]


def subset_of_structures(n: int, *, draws: int) -> NDArray[np.int64]:
    """Return which of `n` structures are stored with `draws` draws each: all, or a sorted random
    subset.
    """
    max_structures = MAX_NUMBERS // max(draws, 1)
    if n <= max_structures:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, max_structures, replace=False))
