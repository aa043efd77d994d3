"""Standardised rows of a set that is too large to hold in the memory twice: raw features, standardised where asked for.

The numbers are those of all rows standardised at once, as every element is computed by itself.
"""

from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.networks.standardise import Standardiser, powered

IN_MEMORY_BYTES: Final = (
    300_000_000  # of features: what is larger stands on disk, and is standardised in parts
)
ROWS_PER_BLOCK: Final = 1024  # rows that exist in float64 at once


class StandardisedRows:
    """Rows x (n, m) of raw features (n, p), float32 on `device`, made when they are indexed.

    `used` (p,) chooses features, `silent` (p,) says which are zero in every row.
    """

    def __init__(
        self,
        features: NDArray[np.floating[Any]],
        standardiser: Standardiser,
        *,
        used: NDArray[np.bool_] | None = None,
        silent: NDArray[np.bool_] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self._raw, self._standardiser, self._device = features, standardiser, device
        self._used = None if used is None or bool(used.all()) else used
        self._silent = silent if silent is not None and bool(silent.any()) else None
        self.shape = (features.shape[0], features.shape[1] if used is None else int(used.sum()))

    def __getitem__(self, rows: Tensor) -> Tensor:
        chosen = rows.cpu().numpy()
        found = torch.empty(len(chosen), self.shape[1])
        for start in range(0, len(chosen), ROWS_PER_BLOCK):
            found[start : start + ROWS_PER_BLOCK] = self._standardised(
                self._raw[chosen[start : start + ROWS_PER_BLOCK]]
            )
        return found.to(self._device)

    def blocks(self, size: int) -> Iterator[Tensor]:
        """Yield the rows in their order, at most `size` at a time."""
        for start in range(0, self.shape[0], size):
            yield self._standardised(self._raw[start : start + size]).to(self._device)

    def to(self, device: torch.device | str) -> Self:
        """Return the same rows, to be made on another device."""
        return type(self)(
            self._raw, self._standardiser, used=self._used, silent=self._silent, device=device
        )

    def _standardised(self, raw: NDArray[np.floating[Any]]) -> Tensor:
        scale = self._standardiser
        if self._used is None:
            x = torch.from_numpy(scale.features(raw)).float()
        else:
            wide = powered(np.ascontiguousarray(raw[:, self._used], dtype=np.float64), scale.power)
            x = torch.from_numpy(
                (wide - scale.x_mean[self._used]) / scale.x_scale[self._used]
            ).float()
        if self._silent is not None:
            x[
                :,
                torch.from_numpy(self._silent if self._used is None else self._silent[self._used]),
            ] = 0.0
        return x


Rows = Tensor | StandardisedRows


def is_large(features: NDArray[np.floating[Any]]) -> bool:
    """Return whether rows of these features are standardised in parts."""
    return features.nbytes > IN_MEMORY_BYTES


def row_blocks(x: Rows, size: int) -> Iterator[Tensor]:
    """Yield rows x (n, m) in their order, at most `size` at a time."""
    return x.blocks(size) if isinstance(x, StandardisedRows) else iter(torch.split(x, size))
