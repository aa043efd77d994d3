"""One batch of chains: its state, its adaptation and one iteration of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bandgap.errors import ConfigError
from bandgap.inference.adaptation import DualAveraging, dual_averaging
from bandgap.inference.checkpoints import under
from bandgap.inference.interweaving import informed_directions, step_interwoven
from bandgap.inference.joint_hmc import Transition, step_joint
from bandgap.inference.scale_moves import step_scales
from bandgap.inference.scales import FreeScalePrior, ScalePrior
from bandgap.inference.whitened_network import (
    Layers,
    WhitenedNetwork,
    draw_output,
    hidden_features,
    integrate_output,
)

START_STEP = 0.05
FIRST_SCALE_MOVE = 10  # iterations in which only the weights move, so that a start far off cannot lock the scales
MAX_STEP = 0.7  # radians: half a turn of the prior's rotation would come back
START_BRACKET = 2.0  # widths of slice brackets in the prior's units, while widths of the posterior are not known
START_FLIGHT = 0.1  # of the same units in one radian
FLIGHT = 0.3  # of the scales' standard deviations in one radian: about their width given z
VISITS = (0.3, 0.4, 0.5, 0.6, 0.7)  # shares of warm-up at which states are kept to find the informed directions
BRACKET = 4.0  # widths of slice brackets in standard deviations found in warm-up
START_SPREAD = 0.3  # of z: small, so that no start is absurd (specification of the method, section 8)
_AVERAGED = ("log_step", "log_average", "gap", "count")  # of the dual averaging, what an update changes
_ON_HOST = ("generator", "host", "numbers")


@dataclass(frozen=True)
class SamplerConfig:
    """Length of the run: chains, iterations of warm-up and after it, kept draws of all chains together, and the path.

    `angle` is the length of a path in radians of the prior's rotation; it varies by a third up and down. On 200
    crystals of the demo (one run each), half a radian gave about as many effective draws of tau and c per iteration as
    one and as two, at 5 gradients instead of 15 and 45, but fewer of sigma and of the predictions; a quarter gave fewer
    of all.
    """

    chains: int = 4
    warmup: int = 300
    draws: int = 1500
    keep: int = 400
    angle: float = 0.65
    target_accept: float = 0.8
    max_steps: int = 80

    def __post_init__(self) -> None:
        if self.chains < 2 or self.warmup < 20 or self.draws < 20 or self.keep < self.chains:
            raise ConfigError(
                f"sampler: {self.chains} chains, {self.warmup} warm-up iterations, {self.draws} draws, {self.keep} "
                "kept. Accepted: at least 2 chains, 20 warm-up iterations, 20 draws and one kept draw for every chain."
            )
        if not (self.angle > 0 and 0 < self.target_accept < 1 and self.max_steps >= 1):
            raise ConfigError(
                f"sampler: angle {self.angle}, target_accept {self.target_accept}, max_steps {self.max_steps}. "
                "Accepted: an angle above 0 (radians), a target acceptance between 0 and 1, and at least 1 step."
            )


@dataclass(frozen=True, eq=False)
class Record:
    """One iteration: z, scales `state` (chain, width), f at the training inputs (chain, n), acceptance."""

    z: Layers
    output: Tensor  # weights of the output layer, (chain, q)
    state: Tensor
    fitted: Tensor
    accept: Tensor
    divergent: Tensor


class Chain:
    """A batch of chains with its adaptation: the only mutable state of the sampler, alive for one run."""

    def __init__(
        self,
        net: WhitenedNetwork,
        prior: ScalePrior,
        config: SamplerConfig,
        chains: int,
        generator: torch.Generator,
        host: torch.Generator,
    ) -> None:
        self._net, self._prior, self._config = net, prior, config
        self._free = prior if isinstance(prior, FreeScalePrior) else None
        self._generator, self._host = generator, host
        self._adaptation: DualAveraging = dual_averaging(START_STEP, target=config.target_accept)
        self.step, self.n_steps = START_STEP, 1
        device, dtype = net.inputs.device, net.inputs.dtype
        self._z: Layers = [
            START_SPREAD * torch.randn((chains, *shape), generator=generator, device=device, dtype=dtype)
            for shape in net.shapes
        ]
        log_sd = 0.5 * float(torch.log(net.y.var().cpu().clamp_min(1e-12)))
        self._state = prior.start(chains, log_sd=log_sd, generator=host).to(device)
        units = torch.diag(prior.units)
        self._brackets, self._flights = START_BRACKET * units, START_FLIGHT * units
        self._history: list[Tensor] = []
        self._visited: list[tuple[Layers, Tensor]] = []
        self._subspaces: Layers = []
        self.iteration = 0  # how many are done

    def iterate(self) -> Iterator[Record]:
        """Yield every iteration that is not done yet, warm-up first."""
        config = self._config
        refresh = {int(config.warmup * share) for share in (0.15, 0.3, 0.5, 0.75)}
        for i in range(self.iteration, config.warmup + config.draws):
            if i == config.warmup:
                self.step = min(self._adaptation.final, MAX_STEP)
            did = self._move(still=i < FIRST_SCALE_MOVE)
            if i < config.warmup:
                self._adapt(i, float(did.accept.mean()), refresh=refresh)
            record = self._record(did)
            self.iteration = i + 1
            yield record

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything that the next iteration depends on, by name: positions, adaptation, generators."""
        adaptation = self._adaptation
        numbers = [self.step, self.n_steps, *(getattr(adaptation, name) for name in _AVERAGED)]
        arrays = {
            "state": self._state,
            "numbers": torch.tensor(numbers, dtype=torch.float64),
            "brackets": self._brackets,
            "flights": self._flights,
            "generator": self._generator.get_state(),
            "host": self._host.get_state(),
        }
        arrays |= {f"z.{layer}": z for layer, z in enumerate(self._z)}
        arrays |= {f"subspace.{layer}": basis.T for layer, basis in enumerate(self._subspaces)}  # columns lie together
        if self.iteration < self._config.warmup:
            if self._history:
                arrays["history"] = torch.stack(self._history)
            for k, (z, state) in enumerate(self._visited):
                arrays |= {f"visited.{k}.state": state, **{f"visited.{k}.z.{layer}": v for layer, v in enumerate(z)}}
        return arrays

    def restore(self, arrays: Mapping[str, Tensor], *, iteration: int, device: torch.device) -> None:
        """Take what `to_arrays` gave after `iteration` iterations; tensors are on the CPU."""
        here = {name: value if name in _ON_HOST else value.to(device) for name, value in arrays.items()}

        def layers(prefix: str) -> Layers:
            found = under(prefix, here)
            return [found[str(layer)] for layer in range(len(found))]

        self.iteration = iteration
        step, n_steps, *averaged = here["numbers"].tolist()
        self.step, self.n_steps = step, int(n_steps)
        values = dict(zip(_AVERAGED, averaged, strict=True))
        self._adaptation = replace(self._adaptation, **{**values, "count": int(values["count"])})
        self._state, self._brackets, self._flights = here["state"], here["brackets"], here["flights"]
        self._generator.set_state(here["generator"])
        self._host.set_state(here["host"])
        self._z, self._subspaces = layers("z."), [rows.T for rows in layers("subspace.")]
        self._history = list(here["history"].unbind(0)) if "history" in here else []
        visits = sum(name.startswith("visited.") and name.endswith(".state") for name in here)
        self._visited = [(layers(f"visited.{k}.z."), here[f"visited.{k}.state"]) for k in range(visits)]

    def _move(self, *, still: bool) -> Transition:
        """Move weights and scales along one path, then the scales alone; `still` keeps the scales where they are."""
        angle = self._config.angle * (0.67 + 0.66 * float(torch.rand(1, generator=self._host)))
        self.n_steps = int(min(self._config.max_steps, max(1, np.ceil(angle / self.step))))
        self._z, self._state, did = step_joint(
            self._net,
            self._z,
            self._state,
            prior=self._prior,
            directions=torch.zeros_like(self._flights) if still else self._flights,
            step=min(self.step, angle / self.n_steps),
            n_steps=self.n_steps,
            generator=self._generator,
        )
        if not still:
            self._state = step_scales(
                self._net, self._z, self._state, prior=self._prior, directions=self._brackets, generator=self._generator
            )
        if not still and self._free is not None:
            self._z, self._state = step_interwoven(
                self._net, self._z, self._state, prior=self._free, subspaces=self._subspaces, generator=self._generator
            )
        return did

    def _record(self, did: Transition) -> "Record":
        scales = self._prior.scales(self._state)
        output = integrate_output(self._net, hidden_features(self._net, self._z, scales), scales)
        weights = draw_output(output, scales, generator=self._generator)
        fitted = (output.features @ weights.unsqueeze(-1)).squeeze(-1)
        return Record(self._z, weights, self._state, fitted, did.accept, did.divergent)

    def _adapt(self, i: int, accept: float, *, refresh: set[int]) -> None:
        self._adaptation = self._adaptation.update(accept)
        self.step = min(self._adaptation.step, MAX_STEP)
        self._history.append(self._state)
        if self._free is not None and i in {int(self._config.warmup * share) for share in VISITS}:
            self._visited.append((self._z, self._state))
        if self._free is not None and i == int(self._config.warmup * max(VISITS)):
            self._subspaces, self._visited = informed_directions(self._net, self._free, self._visited), []
        if i in refresh:
            recent = torch.cat(self._history[len(self._history) // 2 :])
            values, vectors = torch.linalg.eigh(torch.cov(recent.T))
            spread = (vectors * values.clamp_min(1e-3).sqrt()).T.contiguous()
            self._brackets, self._flights = BRACKET * spread, FLIGHT * spread
