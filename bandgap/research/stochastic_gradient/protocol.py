"""The interface between samplers and the sampling loop: states, figures of a step, typed warnings.

A state is a frozen dataclass. Its fields are tensors whose first axis is the chain, or such
dataclasses. Fields marked `SHARED` belong to all chains together. The loop can therefore store,
read and subset states of any sampler.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from torch import Tensor

from bandgap.research.stochastic_gradient.gradients import Gradient

SHARED: Final[Mapping[str, bool]] = {"shared": True}

Normals = Callable[[], Tensor]
"""Returns standard normal numbers of all chains, (chain, dim), new ones with every call."""

AnyState = TypeVar("AnyState")


@dataclass(frozen=True, eq=False)
class StepFigures:
    """Figures of one step: |g|, |h G g|, |G g| / |g|, (chain,) each; the share of damped pairs."""

    gradient_norm: Tensor
    move: Tensor
    stretch: Tensor
    damped: float | None = None


@dataclass(frozen=True)
class SamplerWarning:
    """One problem of a run: its kind, and a sentence on what to do."""

    kind: Literal["diverged", "damped pairs", "step too long", "biased", "not a posterior"]
    text: str


class SamplerConfig(Protocol):
    """What the loop reads of a sampler's settings."""

    @property
    def step(self) -> float:
        """Step, which a schedule multiplies."""

    @property
    def inverse_temperature(self) -> float:
        """tau: the target is exp(tau L), where L includes the prior."""

    @property
    def walkers(self) -> int:
        """Number of positions that one chain starts from."""

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return the problems of these settings that are known before a run."""


@dataclass(frozen=True)
class Algorithm:
    """Functions of a sampler: `init(config, position)` and `step` (see `Step`).

    `position(state)` is the newest position (chain, dim).
    """

    init: Callable[..., Any]
    step: Callable[..., tuple[Any, StepFigures]]
    position: Callable[[Any], Tensor]


class Step(Protocol):
    """One step of a sampler; `adapt` is true during warm-up."""

    def __call__(
        self,
        config: Any,
        state: Any,
        gradient: Gradient,
        normals: Normals,
        *,
        h: float,
        adapt: bool,
    ) -> tuple[Any, StepFigures]: ...


def step_figures(
    gradient: Tensor, drift: Tensor, *, h: float, damped: float | None = None
) -> StepFigures:
    """Return the figures of a step that moves by h times `drift` = G g; both (chain, dim)."""
    gradient_norm = gradient.norm(dim=-1)
    drift_norm = drift.norm(dim=-1)
    stretch = drift_norm / gradient_norm.clamp(min=1e-300)
    return StepFigures(gradient_norm, h * drift_norm, stretch, damped)


def arrays_of(state: Any, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of a state by their field names, nested names joined by dots."""
    arrays: dict[str, Tensor] = {}
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if isinstance(value, Tensor):
            arrays[prefix + field.name] = value
        else:
            arrays |= arrays_of(value, f"{prefix}{field.name}.")
    return arrays


def with_arrays(state: AnyState, arrays: Mapping[str, Tensor], prefix: str = "") -> AnyState:
    """Return a copy of `state` with these tensors, named as in `arrays_of`."""
    values = {}
    for field in dataclasses.fields(state):  # type: ignore[arg-type]
        value = getattr(state, field.name)
        name = prefix + field.name
        values[field.name] = (
            arrays[name] if isinstance(value, Tensor) else with_arrays(value, arrays, f"{name}.")
        )
    return dataclasses.replace(state, **values)  # type: ignore[type-var]


def select_chains(state: AnyState, selected: Tensor) -> AnyState:
    """Return the state of the chains for which `selected` (chain,) is True."""
    values = {}
    for field in dataclasses.fields(state):  # type: ignore[arg-type]
        value = getattr(state, field.name)
        if field.metadata.get("shared"):
            values[field.name] = value
        elif isinstance(value, Tensor):
            values[field.name] = value[selected]
        else:
            values[field.name] = select_chains(value, selected)
    return dataclasses.replace(state, **values)  # type: ignore[type-var]
