"""Rows of a set too large for the memory: raw features that are standardised when they are used.

The values are those of standardising all rows in advance, because every element is independent.
"""

from collections.abc import Iterator
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.networks.standardise import Standardiser, powered

# Features of more bytes are kept on disk, and are standardised in chunks.
IN_MEMORY_BYTES: Final = 300_000_000
# Rows in float64 at a time.
ROWS_PER_CHUNK: Final = 1024


class StandardisedRows:
    """Rows x (n, m) of raw features (n, p), as float32 on `device`, computed when they are indexed.

    `used` (p,) selects features; `silent` (p,) says which are set to zero in every row.
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
        self._raw = features
        self._standardiser = standardiser
        self._device = device
        self._used = None if used is None or bool(used.all()) else used
        self._silent = silent if silent is not None and bool(silent.any()) else None
        self.shape = (features.shape[0], features.shape[1] if used is None else int(used.sum()))

    def __getitem__(self, rows: Tensor) -> Tensor:
        indices = rows.cpu().numpy()
        x = torch.empty(len(indices), self.shape[1])
        for start in range(0, len(indices), ROWS_PER_CHUNK):
            chunk = slice(start, start + ROWS_PER_CHUNK)
            x[chunk] = self._standardised(self._raw[indices[chunk]])
        return x.to(self._device)

    def blocks(self, size: int) -> Iterator[Tensor]:
        """Yield the rows in their order, at most `size` at a time."""
        for start in range(0, self.shape[0], size):
            yield self._standardised(self._raw[start : start + size]).to(self._device)

    def to(self, device: torch.device | str) -> Self:
        """Return the same rows for another device."""
        return type(self)(
            self._raw, self._standardiser, used=self._used, silent=self._silent, device=device
        )

    def _standardised(self, raw: NDArray[np.floating[Any]]) -> Tensor:
        scale = self._standardiser
        if self._used is None:
            x = torch.from_numpy(scale.features(raw)).float()
        else:
            selected = np.ascontiguousarray(raw[:, self._used], dtype=np.float64)
            centred = powered(selected, scale.power) - scale.x_mean[self._used]
            x = torch.from_numpy(centred / scale.x_scale[self._used]).float()
        if self._silent is not None:
            is_silent = self._silent if self._used is None else self._silent[self._used]
            x[:, torch.from_numpy(is_silent)] = 0.0
        return x


Rows = Tensor | StandardisedRows


def is_large(features: NDArray[np.floating[Any]]) -> bool:
    """Return whether rows of these features are standardised in chunks."""
    return features.nbytes > IN_MEMORY_BYTES


def row_blocks(x: Rows, size: int) -> Iterator[Tensor]:
    """Yield rows x (n, m) in their order, at most `size` at a time."""
    return x.blocks(size) if isinstance(x, StandardisedRows) else iter(torch.split(x, size))
