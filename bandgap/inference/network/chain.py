"""One batch of chains: its state, its adaptation and one iteration of it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.checkpoints import under
from bandgap.inference.network.dual_averaging import DualAveraging, dual_averaging
from bandgap.inference.network.input_split import leading_inputs, step_trailing, unit_spans
from bandgap.inference.network.interweaving import informed_directions, step_interwoven
from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales
from bandgap.inference.network.joint_hmc import Transition, step_joint
from bandgap.inference.network.partial_centring import Frame, find_frames
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.scale_moves import step_scales
from bandgap.inference.network.scales import ScalePrior
from bandgap.inference.network.whitened_network import (
    Layers,
    WhitenedNetwork,
    draw_output,
    hidden_features,
    integrate_output,
)

START_STEP = 0.05  # radians
MAX_STEP = 0.7  # radians: half a turn of the prior's rotation would come back
# standard deviation of z at the start: small, so that no start is absurd (specification of the
# method, section 8)
START_SPREAD = 0.3
# iterations in which only the weights move, so that a start far off cannot lock the scales
FIRST_SCALE_MOVE = 10
# share of an angle by which paths vary, in whitened and in partially centred coordinates
JITTER = 0.33
CENTRED_JITTER = 0.1

# widths of the scales' moves: slice brackets, and flights in one radian of a path
START_BRACKET = 2.0  # in the prior's units, until warm-up has estimated the posterior's widths
START_FLIGHT = 0.1  # in the same units
BRACKET = 4.0  # in standard deviations estimated in warm-up
FLIGHT = 0.3  # in the same: about the scales' width given z
CENTRED_FLIGHT = 1.4  # FLIGHT in partially centred coordinates

# shares of warm-up at which widths are estimated, and frames from the second on
REFRESH = (0.15, 0.3, 0.5, 0.75)
# share of the past iterations, the latest ones, used for widths, because the start is far off
RECENT = 0.35
VISITS = 8  # number of the latest states from which frames are found
VISIT_EVERY = 5  # iterations between them
RESTART = 0.5  # of the step, where its search restarts
# shares of warm-up at which states are stored to find informed directions
SUBSPACE_VISITS = (0.3, 0.4, 0.5, 0.6, 0.7)

# Half width of ReLU's rounding, relative to what a typical step of a path adds to a unit's input.
# With inverse gamma scales weights go far and units switch all along a path. Twice the rounding
# then makes steps longer by half.
ROUNDING = 0.6
WIDE_ROUNDING = 1.2

# paths of the trailing inputs' weights: step at the start in radians, and target acceptance
TRAILING_STEP = 0.4
TRAILING_ACCEPT = 0.8
# iterations between such paths: the weights nearly follow the prior, and one path renews them
TRAILING_EVERY = 4

_DUAL_AVERAGING = ("log_step", "log_average", "anchor", "gap", "count", "target")  # its fields
_ON_HOST = ("generator", "host", "numbers", "trailing", "spans")


@dataclass(frozen=True, eq=False)
class Record:
    """One iteration.

    Parameters
    ----------
    z : list of (chain, out, in)
    output : (chain, q), weights of the output layer
    state : (chain, width), of the scales
    fitted : (chain, n), f at the training inputs
    accept, energy : (chain,), of the long path
    divergent : (chain,), of the long path and of that of the trailing inputs
    """

    z: Layers
    output: Tensor
    state: Tensor
    fitted: Tensor
    accept: Tensor
    divergent: Tensor
    energy: Tensor


class Chain:
    """A batch of chains with its adaptation: the only mutable state of the sampler, for one run."""

    def __init__(
        self,
        net: WhitenedNetwork,
        prior: ScalePrior,
        config: SamplerConfig,
        chains: int,
        generator: torch.Generator,
        host: torch.Generator,
    ) -> None:
        self._net = net
        self._prior = prior
        self._config = config
        self._centred = config.coordinates == "partially centred" and net.isotropic
        self._interweaves = not self._centred and prior.scales_are_free
        self._generator = generator
        self._host = host
        target = config.acceptance(centred=False)
        self._adaptation: DualAveraging = dual_averaging(START_STEP, target=target, most=MAX_STEP)
        # splitting the inputs pays on long paths only
        self._leading = leading_inputs(net) if self._centred else net.inputs.shape[1]
        self._trailing: DualAveraging = dual_averaging(
            TRAILING_STEP, target=TRAILING_ACCEPT, most=MAX_STEP
        )
        # the network of the leading inputs, valid until the trailing weights move
        self._part: WhitenedNetwork | None = None
        self.step = START_STEP
        self.n_steps = 1
        device = net.inputs.device
        dtype = net.inputs.dtype
        self._z: Layers = [
            START_SPREAD
            * torch.randn((chains, *shape), generator=generator, device=device, dtype=dtype)
            for shape in net.shapes
        ]
        log_sd = 0.5 * float(torch.log(net.y.var().cpu().clamp_min(1e-12)))
        self._state = prior.start(chains, log_sd=log_sd, generator=host).to(device)
        # how far one radian moves a unit's input, by layer; estimated at the start and in warm-up
        self._spans = self._unit_spans(self._state)
        units = torch.diag(prior.units)
        self._brackets = START_BRACKET * units
        self._flights = START_FLIGHT * units
        self._history: list[Tensor] = []
        self._visited: list[tuple[Layers, Tensor]] = []
        self._frames: list[Frame] = []
        self._subspaces: Layers = []
        self.iteration = 0  # number of finished iterations

    def iterate(self) -> Iterator[Record]:
        """Yield every remaining iteration, warm-up first."""
        config = self._config
        refresh = [int(config.n_warmup * share) for share in REFRESH]
        for i in range(self.iteration, config.n_warmup + config.n_draws):
            if i == config.n_warmup:
                self.step = self._adaptation.final
                self._history = []
                self._visited = []
            transition = self._move(move_scales=i >= FIRST_SCALE_MOVE)
            if i < config.n_warmup:
                self._adapt(i, float(transition.accept.mean()), refresh=refresh)
            record = self._record(transition)
            self.iteration = i + 1
            yield record

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything that the next iteration depends on, by name."""
        adaptation = [getattr(self._adaptation, name) for name in _DUAL_AVERAGING]
        trailing = [getattr(self._trailing, name) for name in _DUAL_AVERAGING]
        numbers = [self.step, self.n_steps, *adaptation]
        arrays = {
            "state": self._state,
            "numbers": torch.tensor(numbers, dtype=torch.float64),
            "trailing": torch.tensor(trailing, dtype=torch.float64),
            "spans": torch.tensor(self._spans, dtype=torch.float64),
            "brackets": self._brackets,
            "flights": self._flights,
            "generator": self._generator.get_state(),
            "host": self._host.get_state(),
        }
        arrays |= {f"z.{layer}": z for layer, z in enumerate(self._z)}
        # transposed, because the columns are contiguous
        arrays |= {f"subspace.{layer}": basis.T for layer, basis in enumerate(self._subspaces)}
        for layer, frame in enumerate(self._frames):
            arrays |= {f"frame.{layer}.{name}": value for name, value in frame.to_arrays().items()}
        if self.iteration < self._config.n_warmup:
            if self._history:
                arrays["history"] = torch.stack(self._history)
            for k, (z, state) in enumerate(self._visited):
                arrays[f"visited.{k}.state"] = state
                arrays |= {f"visited.{k}.z.{layer}": q for layer, q in enumerate(z)}
        return arrays

    def restore(
        self, arrays: Mapping[str, Tensor], *, iteration: int, device: torch.device
    ) -> None:
        """Restore the state that `to_arrays` returned after `iteration` iterations.

        `arrays` are on the CPU.
        """
        tensors = {
            name: value if name in _ON_HOST else value.to(device) for name, value in arrays.items()
        }

        def layers(prefix: str) -> Layers:
            by_layer = under(prefix, tensors)
            return [by_layer[str(layer)] for layer in range(len(by_layer))]

        self.iteration = iteration
        step, n_steps, *adaptation = tensors["numbers"].tolist()
        self.step = step
        self.n_steps = int(n_steps)
        self._adaptation = _with_numbers(self._adaptation, adaptation)
        self._trailing = _with_numbers(self._trailing, tensors["trailing"].tolist())
        self._spans = tensors["spans"].tolist()
        self._state = tensors["state"]
        self._brackets = tensors["brackets"]
        self._flights = tensors["flights"]
        self._generator.set_state(tensors["generator"])
        self._host.set_state(tensors["host"])
        self._part = None
        self._z = layers("z.")
        self._subspaces = [rows.T for rows in layers("subspace.")]
        n_frames = sum(
            name.startswith("frame.") and name.endswith(".information") for name in tensors
        )
        self._frames = [
            Frame.from_arrays(under(f"frame.{layer}.", tensors)) for layer in range(n_frames)
        ]
        self._history = list(tensors["history"].unbind(0)) if "history" in tensors else []
        n_visits = sum(name.startswith("visited.") and name.endswith(".state") for name in tensors)
        self._visited = [
            (layers(f"visited.{k}.z."), tensors[f"visited.{k}.state"]) for k in range(n_visits)
        ]

    def _move(self, *, move_scales: bool) -> Transition:
        """Move weights and scales along one path, then the scales alone.

        Without `move_scales` only the weights move.
        """
        centred = bool(self._frames)
        angle = self._config.radians(centred=centred)
        jitter = CENTRED_JITTER if centred else JITTER
        angle *= 1.0 + jitter * (2.0 * float(torch.rand(1, generator=self._host)) - 1.0)
        self.n_steps = int(min(self._config.max_steps, max(1, np.ceil(angle / self.step))))
        z, self._state, transition = step_joint(
            *self._leading_part(),
            self._state,
            prior=self._prior,
            directions=self._flights if move_scales else torch.zeros_like(self._flights),
            step=min(self.step, angle / self.n_steps),
            n_steps=self.n_steps,
            generator=self._generator,
            frames=self._frames,
            widths=self._widths(),
        )
        self._set_leading(z)
        if self._is_split and self.iteration % TRAILING_EVERY == 0:
            divergent = transition.divergent | self._move_trailing().divergent
            transition = replace(transition, divergent=divergent)
        if move_scales:
            self._state = step_scales(
                *self._leading_part(),
                self._state,
                prior=self._prior,
                directions=self._brackets,
                generator=self._generator,
            )
        if move_scales and self._interweaves:
            self._z, self._state = step_interwoven(
                self._net,
                self._z,
                self._state,
                prior=self._prior,
                subspaces=self._subspaces,
                generator=self._generator,
            )
        return transition

    @property
    def _is_split(self) -> bool:
        """Whether the first layer's inputs are in two parts."""
        return self._leading < self._net.inputs.shape[1]

    def _leading_part(self) -> tuple[WhitenedNetwork, Layers]:
        """Return the network of the leading inputs and its weights, the trailing ones fixed."""
        if not self._is_split:
            return self._net, self._z
        first = self._z[0]
        if self._part is None:
            self._part = self._net.with_inputs(slice(None, self._leading), first)
        return self._part, [first[:, :, : self._leading].contiguous(), *self._z[1:]]

    def _set_leading(self, z: Layers) -> None:
        """Set the weights of `_leading_part`."""
        if self._is_split:
            trailing = self._z[0][:, :, self._leading :]
            z = [torch.cat([z[0], trailing], 2), *z[1:]]
        self._z = z

    def _widths(self) -> list[float]:
        """Return half widths of ReLU's rounding, by layer; none before they are estimated."""
        rounding = WIDE_ROUNDING if isinstance(self._prior, InverseGammaScales) else ROUNDING
        return [rounding * self.step * span for span in self._spans]

    def _move_trailing(self) -> Transition:
        """Move the weights of the trailing inputs."""
        in_warmup = self.iteration < self._config.n_warmup
        self._z, transition = step_trailing(
            self._net,
            self._z,
            self._state,
            prior=self._prior,
            leading=self._leading,
            step=self._trailing.step if in_warmup else self._trailing.final,
            max_steps=self._config.max_steps,
            generator=self._generator,
            widths=self._widths(),
        )
        self._part = None
        if in_warmup:
            self._trailing = self._trailing.update(float(transition.accept.mean()))
        return transition

    def _record(self, transition: Transition) -> Record:
        scales = self._prior.scales(self._state)
        part, z = self._leading_part()
        output = integrate_output(part, hidden_features(part, z, scales), scales)
        weights = draw_output(output, scales, generator=self._generator)
        fitted = (output.features @ weights.unsqueeze(-1)).squeeze(-1)
        return Record(
            self._z,
            weights,
            self._state,
            fitted,
            transition.accept,
            transition.divergent,
            transition.energy,
        )

    def _adapt(self, i: int, accept: float, *, refresh: list[int]) -> None:
        """Adapt after iteration `i`; `refresh` are the iterations at which widths are estimated."""
        self._adaptation = self._adaptation.update(accept)
        self.step = self._adaptation.step
        self._history.append(self._state)
        if self._centred and i % VISIT_EVERY == 0:
            self._visited = [*self._visited, (self._z, self._state)][-VISITS:]
        if self._interweaves:
            self._visit_for_subspaces(i)
        if i in refresh:
            self._refresh(find_new_frames=self._centred and i > refresh[0])

    def _visit_for_subspaces(self, i: int) -> None:
        """Store the state at the iterations of `SUBSPACE_VISITS`; find directions at the last."""
        iterations = [int(self._config.n_warmup * share) for share in SUBSPACE_VISITS]
        if i in iterations:
            self._visited.append((self._z, self._state))
        if i == iterations[-1]:
            self._subspaces = informed_directions(self._net, self._prior, self._visited)
            self._visited = []

    def _unit_spans(self, recent: Tensor) -> list[float]:
        """Return `unit_spans` at the present state, with the mean scales of states `recent`."""
        return unit_spans(
            self._net,
            self._z,
            self._prior.scales(self._state),
            layer_scales=torch.log(self._prior.scales(recent).s).mean(0).exp(),
            leading=self._leading,
        )

    def _refresh(self, *, find_new_frames: bool) -> None:
        """Estimate the scales' widths from the latest iterations and, if asked for, frames."""
        recent = torch.cat(self._history[-math.ceil(RECENT * len(self._history)) :])
        values, vectors = torch.linalg.eigh(torch.cov(recent.T))
        spread = (vectors * values.clamp_min(1e-3).sqrt()).T.contiguous()
        self._brackets = BRACKET * spread
        self._flights = (CENTRED_FLIGHT if find_new_frames else FLIGHT) * spread
        self._spans = self._unit_spans(recent)
        if find_new_frames:
            self._frames = find_frames(self._net, self._prior, self._visited, leading=self._leading)
            target = self._config.acceptance(centred=True)
            self._adaptation = dual_averaging(RESTART * self.step, target=target, most=MAX_STEP)


def _with_numbers(adaptation: DualAveraging, numbers: Sequence[float]) -> DualAveraging:
    log_step, log_average, anchor, gap, count, target = numbers
    return DualAveraging(log_step, log_average, anchor, gap, int(count), target, adaptation.most)
