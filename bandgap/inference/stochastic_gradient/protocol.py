"""What samplers and the loop share: states of tensors, what a step tells, typed warnings.

A state is a frozen dataclass whose fields are tensors, chain first, or such dataclasses; fields marked `SHARED` belong
to all chains together. So states are stored, read and cut to some of their chains without knowing the sampler.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.stochastic_gradient.gradients import Gradient

SHARED: Final[Mapping[str, bool]] = {"shared": True}

Normals = Callable[[], Tensor]
"""Standard normal numbers of every chain, (chain, dim), new ones with every call."""

AnyState = TypeVar("AnyState")


@dataclass(frozen=True, eq=False)
class StepFigures:
    """What a step says of itself: |g|, |h G g|, |G g| / |g|, all (chain,), and the share of damped pairs."""

    gradient_norm: Tensor
    move: Tensor
    stretch: Tensor
    damped: float | None = None


@dataclass(frozen=True)
class SamplerWarning:
    """One thing that is wrong with a run: what kind it is of, and a sentence on what to do."""

    kind: Literal["diverged", "damped pairs", "step too long", "biased", "not a posterior"]
    text: str


class SamplerConfig(Protocol):
    """What the loop asks of a sampler's settings."""

    @property
    def step(self) -> float:
        """The step that a schedule multiplies."""

    @property
    def inverse_temperature(self) -> float:
        """tau: the target is exp(tau L), the prior included."""

    @property
    def walkers(self) -> int:
        """Positions that a chain starts from."""

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return what is known to be wrong with these settings before a run."""


@dataclass(frozen=True)
class Algorithm:
    """A sampler's functions: `init(config, position)`, `step(config, state, gradient, normals, h=, adapt=)`.

    `position(state)` is the newest position (chain, dim). `adapt` says whether the run is in warm-up.
    """

    init: Callable[..., Any]
    step: Callable[..., tuple[Any, StepFigures]]
    position: Callable[[Any], Tensor]


class Step(Protocol):
    """A step of a sampler."""

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


def check_step(name: str, *, step: float, inverse_temperature: float) -> None:
    """Raise ConfigError on a step or a temperature that no chain can have."""
    if not (step > 0 and inverse_temperature > 0):
        raise ConfigError(
            f"{name}: step {step}, inverse temperature {inverse_temperature}. Accepted: numbers above 0."
        )


def step_figures(
    gradient: Tensor, drift: Tensor, *, h: float, damped: float | None = None
) -> StepFigures:
    """Return what a step says that moves by h times `drift` (chain, dim) = G g."""
    size, moved = gradient.norm(dim=-1), drift.norm(dim=-1)
    return StepFigures(size, h * moved, moved / size.clamp(min=1e-300), damped)


def arrays_of(state: Any, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of a state by the names of their fields, joined by dots."""
    found: dict[str, Tensor] = {}
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if isinstance(value, Tensor):
            found[prefix + field.name] = value
        else:
            found |= arrays_of(value, f"{prefix}{field.name}.")
    return found


def with_arrays(state: AnyState, arrays: Mapping[str, Tensor], prefix: str = "") -> AnyState:
    """Return a state of the same form with these tensors, as `arrays_of` names them."""
    values = {}
    for field in dataclasses.fields(state):  # type: ignore[arg-type]
        value = getattr(state, field.name)
        name = prefix + field.name
        values[field.name] = (
            arrays[name] if isinstance(value, Tensor) else with_arrays(value, arrays, f"{name}.")
        )
    return dataclasses.replace(state, **values)  # type: ignore[type-var]


def of_chains(state: AnyState, kept: Tensor) -> AnyState:
    """Return the state of some of the chains, `kept` (chain,) being True for them."""
    values = {}
    for field in dataclasses.fields(state):  # type: ignore[arg-type]
        value = getattr(state, field.name)
        if field.metadata.get("shared"):
            values[field.name] = value
        else:
            values[field.name] = (
                value[kept] if isinstance(value, Tensor) else of_chains(value, kept)
            )
    return dataclasses.replace(state, **values)  # type: ignore[type-var]
