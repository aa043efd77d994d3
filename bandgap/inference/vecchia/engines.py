"""Which of two engines sums over the sites of a Vecchia likelihood: compiled loops, or batched tensors on a device.

Both give value, gradient and Fisher information of all sites or of a batch, in closed form and double precision, one
Cholesky factor a site. On one core of a CPU batched tensors take 2.6 to 4.5 times as long as the loops, for a pass over
all sites as for a batch of 250, with 15 and with 60 neighbours (`python -m benchmarks vecchia` measures both side by
side, on CUDA too): loops are the choice there. They have no other device; CUDA, where it is asked for, takes the
tensors. An H100 beside a core of its machine: a pass over 8,000 sites takes 0.12 of the loops' time with 15 neighbours,
0.05 with 60, a batch of 250 sites 4.2 times and 0.55 of it.
"""

from typing import Literal, get_args

import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.inference.vecchia.batched import BatchedSites
from bandgap.inference.vecchia.likelihood import Blocks, Sites

Engine = Literal["auto", "loops", "batched"]


def check_engine(engine: str) -> None:
    """Raise ConfigError on an engine that there is not."""
    if engine not in get_args(Engine):
        raise ConfigError(f"engine is {engine!r}. Accepted: {', '.join(get_args(Engine))}.")


def device_of(engine: Engine, device: str = "auto") -> torch.device:
    """Return the torch device of an engine on `auto`, `cpu` or `cuda`; `auto` is CUDA for batched tensors alone.

    Raises ConfigError on another device, on `cuda` where there is none, and on loops there.
    """
    check_engine(engine)
    if engine == "loops" and device == "cuda":
        raise ConfigError(
            "engine 'loops' runs on the CPU, device is 'cuda'. Take engine 'batched', or device 'cpu'."
        )
    place = choose_device(device)
    return torch.device("cpu") if device == "auto" and engine != "batched" else place


def sites_on(blocks: Blocks, engine: Engine, *, device: torch.device) -> Sites:
    """Return the sites with the engine that sums over them."""
    batched = engine == "batched" or (engine == "auto" and device.type != "cpu")
    return BatchedSites(blocks, device) if batched else blocks


def can_move(sites: Sites) -> bool:
    """Return whether other machines can sum over the sites too: not where these lie on a GPU of this one."""
    return not (isinstance(sites, BatchedSites) and sites.device.type != "cpu")
