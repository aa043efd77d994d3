"""Entries of the catalogue: methods, sources, presets and the machine, for the dashboard.

Only the worker loads the libraries behind them; it registers the entries when it starts
(`catalogue`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bandgap.transfer.shared.cost import Cost


@dataclass(frozen=True)
class MethodEntry:
    """A transfer method: the texts of `bandgap.transfer.Method`, its cost and default settings.

    `settings` are plain values by name. `cost` is None for a method that was not timed.
    """

    title: str
    summary: str = ""
    family: str = ""
    heading: str = ""
    standing: str = "alternative"
    duration: str = ""
    cost: Cost | None = None
    needs: str = ""
    new_elements: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_research(self) -> bool:
        """Whether nothing proposes it."""
        return self.standing == "research"

    @property
    def label(self) -> str:
        """Its title; that of a research method says so."""
        return f"{self.title} (research)" if self.is_research else self.title

    def need_in(self, parts: Collection[str]) -> bool:
        """Return whether a source model with these parts has what the method needs."""
        return not self.needs or self.needs in parts

    @property
    def sampler(self) -> Mapping[str, Any]:
        """Default settings of its sampler, empty for a method without one."""
        return dict(self.settings.get("sampler", {}))


@dataclass(frozen=True)
class SourceEntry:
    """A source model that is shipped: its title, its folder and its card."""

    title: str
    folder: str
    card: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PresetEntry:
    """A descriptor preset: its elements and its number of features."""

    species: tuple[str, ...]
    n_features: int


@dataclass(frozen=True)
class SystemEntry:
    """The machine of the worker: versions of packages, device, cores, and installed extras."""

    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"
    cores: int = 1
    levels: bool = False
    graph: bool = False
    potentials: tuple[str, ...] = ()
