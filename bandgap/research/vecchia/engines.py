"""The engines for Vecchia's likelihood: compiled loops, or batched tensors on a device.

Both compute value, gradient and Fisher information of all sites or of a batch, in closed form and
double precision, from one Cholesky factor a site. Loops are faster on a CPU, their only device.
Tensors are for CUDA. `python -m benchmarks vecchia` compares them.
"""

from typing import Literal, get_args

import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.research.vecchia.batched import BatchedSites
from bandgap.research.vecchia.likelihood import Blocks, Sites

Engine = Literal["auto", "loops", "batched"]


def check_engine(engine: str) -> None:
    """Raise ConfigError for an engine that does not exist."""
    if engine not in get_args(Engine):
        raise ConfigError(f"engine is {engine!r}. Accepted: {', '.join(get_args(Engine))}.")


def device_of(engine: Engine, device: str = "auto") -> torch.device:
    """Return the torch device for an engine and "auto", "cpu" or "cuda".

    "auto" is CUDA only for batched tensors, if there is one. Raises ConfigError for another device,
    for "cuda" without a CUDA device, and for loops on CUDA.
    """
    check_engine(engine)
    if engine == "loops" and device == "cuda":
        raise ConfigError(
            "engine 'loops' runs on the CPU, device is 'cuda'. Take engine 'batched', or device "
            "'cpu'."
        )
    torch_device = choose_device(device)
    return torch.device("cpu") if device == "auto" and engine != "batched" else torch_device


def sites_on(blocks: Blocks, engine: Engine, *, device: torch.device) -> Sites:
    """Return the sites with the engine that sums over them."""
    batched = engine == "batched" or (engine == "auto" and device.type != "cpu")
    return BatchedSites(blocks, device) if batched else blocks


def can_move(sites: Sites) -> bool:
    """Return whether other machines can sum over the sites: not if they are on a GPU."""
    return not (isinstance(sites, BatchedSites) and sites.device.type != "cpu")
