"""Draws as runs of earlier versions stored them: entries that no draw changes, once."""

import numpy as np
import torch


def packed(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a tensor (chain, draw, ...) in four parts."""
    bits = value.contiguous().view(torch.int32)  # -0 and 0, and two NaN, are told apart
    varies = (bits != bits[:, :1]).any(1).flatten()
    flat = value.movedim(1, 0).flatten(1)
    return {
        f"packed.shape.{name}": torch.tensor(value.shape, dtype=torch.int64),
        f"packed.varies.{name}": torch.from_numpy(np.packbits(varies.numpy())),
        f"packed.once.{name}": flat[0, ~varies],
        f"packed.moving.{name}": flat[:, varies],
    }
