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
from bandgap.inference.network.scales import FreeScalePrior, ScalePrior
from bandgap.inference.network.whitened_network import (
    Layers,
    WhitenedNetwork,
    draw_output,
    hidden_features,
    integrate_output,
)

START_STEP = 0.05
FIRST_SCALE_MOVE = (
    10  # iterations in which only the weights move, so that a start far off cannot lock the scales
)
MAX_STEP = 0.7  # radians: half a turn of the prior's rotation would come back
START_BRACKET = 2.0  # widths of slice brackets in the prior's units, while widths of the posterior are not known
START_FLIGHT = 0.1  # of the same units in one radian
FLIGHT = 0.3  # of the scales' standard deviations in one radian: about their width given z
REFRESH = (
    0.15,
    0.3,
    0.5,
    0.75,
)  # shares of warm-up at which widths, and from the second on frames, are found anew
JITTER = (0.33, 0.1)  # share of an angle by which paths vary, without and with frames
VISITS = 8  # of the last states that are kept, from which frames are found
SUBSPACE_VISITS = (
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
)  # shares of warm-up at which states are kept to find informed directions
FRAMED_FLIGHT = 1.4  # instead of FLIGHT in frames
RECENT = 0.35  # share of the iterations so far, the last ones, from which widths are found: the start is far off
VISIT_EVERY, RESTART = (
    5,
    0.5,
)  # iterations between states that are kept; of the step, where it is searched anew
BRACKET = 4.0  # widths of slice brackets in standard deviations found in warm-up
# half width of ReLU's rounding, of what a typical step of a path adds to a unit's input; and where the prior lets the
# weights go far, so that units switch all along a path: steps are longer by half
ROUNDING, WIDE_ROUNDING = 0.6, 1.2
TRAILING_STEP, TRAILING_ACCEPT = (
    0.4,
    0.8,
)  # radians, at the start, of paths of the trailing inputs' weights
TRAILING_EVERY = (
    4  # iterations: these weights are nearly as the prior has them, and one path makes them new
)
START_SPREAD = (
    0.3  # of z: small, so that no start is absurd (specification of the method, section 8)
)
_AVERAGED = (
    "log_step",
    "log_average",
    "anchor",
    "gap",
    "count",
    "target",
)  # fields of the dual averaging
_ON_HOST = ("generator", "host", "numbers", "trailing", "spans")


@dataclass(frozen=True, eq=False)
class Record:
    """One iteration: z, scales `state` (chain, width), f at the training inputs (chain, n).

    Acceptance and energy are those of the long path; `divergent` counts a path of the trailing inputs too.
    """

    z: Layers
    output: Tensor  # weights of the output layer, (chain, q)
    state: Tensor
    fitted: Tensor
    accept: Tensor
    divergent: Tensor
    energy: Tensor


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
        self._centred = config.coordinates == "partially centred" and net.isotropic
        self._free = prior if not self._centred and isinstance(prior, FreeScalePrior) else None
        self._generator, self._host = generator, host
        target = config.acceptance(framed=False)
        self._adaptation: DualAveraging = dual_averaging(START_STEP, target=target, most=MAX_STEP)
        self._leading = (
            leading_inputs(net) if self._centred else net.inputs.shape[1]
        )  # worth it on long paths
        self._trailing: DualAveraging = dual_averaging(
            TRAILING_STEP, target=TRAILING_ACCEPT, most=MAX_STEP
        )
        self._part: WhitenedNetwork | None = (
            None  # that of the leading inputs, until the others' weights move
        )
        self._spans: list[float] = []  # of a unit's input in one radian, by layer; found in warm-up
        self.step, self.n_steps = START_STEP, 1
        device, dtype = net.inputs.device, net.inputs.dtype
        self._z: Layers = [
            START_SPREAD
            * torch.randn((chains, *shape), generator=generator, device=device, dtype=dtype)
            for shape in net.shapes
        ]
        log_sd = 0.5 * float(torch.log(net.y.var().cpu().clamp_min(1e-12)))
        self._state = prior.start(chains, log_sd=log_sd, generator=host).to(device)
        units = torch.diag(prior.units)
        self._brackets, self._flights = START_BRACKET * units, START_FLIGHT * units
        self._history: list[Tensor] = []
        self._visited: list[tuple[Layers, Tensor]] = []
        self._frames: list[Frame] = []
        self._subspaces: Layers = []
        self.iteration = 0  # how many are done

    def iterate(self) -> Iterator[Record]:
        """Yield every iteration that is not done yet, warm-up first."""
        config = self._config
        refresh = [int(config.n_warmup * share) for share in REFRESH]
        for i in range(self.iteration, config.n_warmup + config.n_draws):
            if i == config.n_warmup:
                self.step = self._adaptation.final
                self._history, self._visited = [], []
            did = self._move(still=i < FIRST_SCALE_MOVE)
            if i < config.n_warmup:
                self._adapt(i, float(did.accept.mean()), refresh=refresh)
            record = self._record(did)
            self.iteration = i + 1
            yield record

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything that the next iteration depends on, by name: positions, adaptation, generators."""
        adaptation = self._adaptation
        numbers = [self.step, self.n_steps, *(getattr(adaptation, name) for name in _AVERAGED)]
        trailing = [getattr(self._trailing, name) for name in _AVERAGED]
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
        arrays |= {
            f"subspace.{layer}": basis.T for layer, basis in enumerate(self._subspaces)
        }  # columns lie together
        for layer, frame in enumerate(self._frames):
            arrays |= {f"frame.{layer}.{name}": value for name, value in frame.to_arrays().items()}
        if self.iteration < self._config.n_warmup:
            if self._history:
                arrays["history"] = torch.stack(self._history)
            for k, (z, state) in enumerate(self._visited):
                arrays |= {
                    f"visited.{k}.state": state,
                    **{f"visited.{k}.z.{layer}": v for layer, v in enumerate(z)},
                }
        return arrays

    def restore(
        self, arrays: Mapping[str, Tensor], *, iteration: int, device: torch.device
    ) -> None:
        """Take what `to_arrays` gave after `iteration` iterations; tensors are on the CPU."""
        here = {
            name: value if name in _ON_HOST else value.to(device) for name, value in arrays.items()
        }

        def layers(prefix: str) -> Layers:
            found = under(prefix, here)
            return [found[str(layer)] for layer in range(len(found))]

        self.iteration = iteration
        step, n_steps, *averaged = here["numbers"].tolist()
        self.step, self.n_steps = step, int(n_steps)
        self._adaptation = _averaged(self._adaptation, averaged)
        self._trailing = _averaged(self._trailing, here["trailing"].tolist())
        self._spans = here["spans"].tolist()
        self._state, self._brackets, self._flights = (
            here["state"],
            here["brackets"],
            here["flights"],
        )
        self._generator.set_state(here["generator"])
        self._host.set_state(here["host"])
        self._part = None
        self._z, self._subspaces = layers("z."), [rows.T for rows in layers("subspace.")]
        framed = sum(name.startswith("frame.") and name.endswith(".left") for name in here)
        self._frames = [
            Frame.from_arrays(under(f"frame.{layer}.", here)) for layer in range(framed)
        ]
        self._history = list(here["history"].unbind(0)) if "history" in here else []
        visits = sum(name.startswith("visited.") and name.endswith(".state") for name in here)
        self._visited = [
            (layers(f"visited.{k}.z."), here[f"visited.{k}.state"]) for k in range(visits)
        ]

    def _move(self, *, still: bool) -> Transition:
        """Move weights and scales along one path, then the scales alone; `still` keeps the scales where they are."""
        angle = self._config.radians(framed=bool(self._frames))
        angle *= 1.0 + JITTER[bool(self._frames)] * (
            2.0 * float(torch.rand(1, generator=self._host)) - 1.0
        )
        self.n_steps = int(min(self._config.max_steps, max(1, np.ceil(angle / self.step))))
        moved, self._state, did = step_joint(
            *self._on_leading(),
            self._state,
            prior=self._prior,
            directions=torch.zeros_like(self._flights) if still else self._flights,
            step=min(self.step, angle / self.n_steps),
            n_steps=self.n_steps,
            generator=self._generator,
            frames=self._frames,
            widths=self._widths(),
        )
        self._put_leading(moved)
        if self._split and self.iteration % TRAILING_EVERY == 0:
            did = replace(did, divergent=did.divergent | self._move_trailing().divergent)
        if not still:
            self._state = step_scales(
                *self._on_leading(),
                self._state,
                prior=self._prior,
                directions=self._brackets,
                generator=self._generator,
            )
        if not still and self._free is not None:
            self._z, self._state = step_interwoven(
                self._net,
                self._z,
                self._state,
                prior=self._free,
                subspaces=self._subspaces,
                generator=self._generator,
            )
        return did

    @property
    def _split(self) -> bool:
        """Return whether the first layer's inputs are in two parts."""
        return self._leading < self._net.inputs.shape[1]

    def _on_leading(self) -> tuple[WhitenedNetwork, Layers]:
        """Return the network and the weights of its leading inputs, those of the trailing ones held fixed."""
        if not self._split:
            return self._net, self._z
        first = self._z[0]
        if self._part is None:
            self._part = self._net.at_inputs(slice(None, self._leading), first)
        return self._part, [first[:, :, : self._leading].contiguous(), *self._z[1:]]

    def _put_leading(self, z: Layers) -> None:
        """Take what `_on_leading` gave, moved."""
        self._z = (
            [torch.cat([z[0], self._z[0][:, :, self._leading :]], 2), *z[1:]] if self._split else z
        )

    def _widths(self) -> list[float]:
        """Return half widths of ReLU's rounding, by layer; none before they are known."""
        rounding = WIDE_ROUNDING if isinstance(self._prior, InverseGammaScales) else ROUNDING
        return [rounding * self.step * span for span in self._spans]

    def _move_trailing(self) -> Transition:
        step = (
            self._trailing.step if self.iteration < self._config.n_warmup else self._trailing.final
        )
        self._z, did = step_trailing(
            self._net,
            self._z,
            self._state,
            prior=self._prior,
            leading=self._leading,
            step=step,
            max_steps=self._config.max_steps,
            generator=self._generator,
            widths=self._widths(),
        )
        self._part = None
        if self.iteration < self._config.n_warmup:
            self._trailing = self._trailing.update(float(did.accept.mean()))
        return did

    def _record(self, did: Transition) -> "Record":
        scales, (part, z) = self._prior.scales(self._state), self._on_leading()
        output = integrate_output(part, hidden_features(part, z, scales), scales)
        weights = draw_output(output, scales, generator=self._generator)
        fitted = (output.features @ weights.unsqueeze(-1)).squeeze(-1)
        return Record(self._z, weights, self._state, fitted, did.accept, did.divergent, did.energy)

    def _adapt(self, i: int, accept: float, *, refresh: list[int]) -> None:
        self._adaptation = self._adaptation.update(accept)
        self.step = self._adaptation.step
        self._history.append(self._state)
        if self._centred and i % VISIT_EVERY == 0:
            self._visited = [*self._visited, (self._z, self._state)][-VISITS:]
        if self._free is not None:
            self._find_subspaces(self._free, i)
        if i in refresh:
            self._refresh(frames=self._centred and i > refresh[0])

    def _find_subspaces(self, prior: FreeScalePrior, i: int) -> None:
        """Keep the state where its turn has come, and find the informed directions at the last of these turns."""
        turns = [int(self._config.n_warmup * share) for share in SUBSPACE_VISITS]
        if i in turns:
            self._visited.append((self._z, self._state))
        if i == turns[-1]:
            self._subspaces, self._visited = (
                informed_directions(self._net, prior, self._visited),
                [],
            )

    def _refresh(self, *, frames: bool) -> None:
        """Find widths of the scales and, where `frames`, coordinates anew, from the last iterations."""
        recent = torch.cat(self._history[-math.ceil(RECENT * len(self._history)) :])
        values, vectors = torch.linalg.eigh(torch.cov(recent.T))
        spread = (vectors * values.clamp_min(1e-3).sqrt()).T.contiguous()
        self._brackets, self._flights = (
            BRACKET * spread,
            (FRAMED_FLIGHT if frames else FLIGHT) * spread,
        )
        now, usual = (
            self._prior.scales(self._state),
            torch.log(self._prior.scales(recent).s).mean(0).exp(),
        )
        self._spans = unit_spans(self._net, self._z, now, usual=usual, leading=self._leading)
        if frames:
            self._frames = find_frames(self._net, self._prior, self._visited, leading=self._leading)
            target = self._config.acceptance(framed=True)
            self._adaptation = dual_averaging(RESTART * self.step, target=target, most=MAX_STEP)


def _averaged(adaptation: DualAveraging, numbers: Sequence[float]) -> DualAveraging:
    log_step, log_average, anchor, gap, count, target = numbers
    return DualAveraging(log_step, log_average, anchor, gap, int(count), target, adaptation.most)
