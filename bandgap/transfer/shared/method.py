"""What every transfer method is given and what the registry knows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import from_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.posterior import Posterior
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice
from bandgap.transfer.shared.baseline import fit_baseline, with_baseline

Family = Literal[
    "all layers, Bayesian",
    "output layer alone",
    "many trained networks",
    "one trained network",
    "without transfer",
]

Need = Literal["", "fisher", "variational", "snapshots"]

WITHOUT_TRANSFER: Final = "without transfer"
OUTPUT_LAYER_ALONE: Final = "output layer alone"
MIN_ROWS = 5


@dataclass(frozen=True, eq=False)
class TargetData:
    """Labelled training rows of a target: raw features (n, p) and gaps (n,) in eV.

    With `baseline` the last feature is a value near the gap that every method learns the difference to.
    """

    features: NDArray[np.floating[Any]]
    gaps_eV: NDArray[np.float64]
    baseline: bool = False

    def __post_init__(self) -> None:
        n = self.gaps_eV.shape[0]
        if n < MIN_ROWS:
            raise InputError(
                f"{n} labelled structures are too few to transfer to. Give at least {MIN_ROWS}, better 50."
            )
        if self.features.shape[0] != n:
            rows = self.features.shape[0]
            raise InputError(f"features of {rows} structures, gaps of {n}: one gap for each is expected.")
        if not np.isfinite(self.features).all() or not np.isfinite(self.gaps_eV).all():
            raise InputError(
                "features or gaps of the training rows are not finite. Leave out refused structures first."
            )
        if float(np.std(self.gaps_eV)) <= 0:
            raise InputError(f"all {n} labels are {self.gaps_eV[0]} eV. A transfer needs gaps that differ.")


class ScaleChoice(TypedDict):
    """The settings of `standardiser_for`, by its names."""

    statistics: StatisticsChoice
    gap_scale: GapScale


@dataclass(frozen=True)
class Scales:
    """Settings of a method that works on the source's scales: whose feature statistics, whether gaps are mapped."""

    standardise: StatisticsChoice = "auto"
    gap_scale: GapScale = "calibrated"

    @property
    def scales(self) -> ScaleChoice:
        """These settings as arguments."""
        return {"statistics": self.standardise, "gap_scale": self.gap_scale}


class Fit(Protocol):
    """Fit a method; the same seed on the same device gives the same posterior."""

    def __call__(
        self,
        source: SourceModel,
        data: TargetData,
        config: Any,
        *,
        seed: int,
        device: str = "auto",
        progress: Progress = no_progress,
    ) -> Posterior: ...


class FitTogether(Protocol):
    """Make one posterior from all networks of a source (each a source model for every output), centred at `head`."""

    def __call__(
        self,
        members: Sequence[Mapping[str, SourceModel]],
        data: TargetData,
        config: Any,
        *,
        head: str,
        seed: int,
        device: str = "auto",
        progress: Progress = no_progress,
    ) -> Posterior: ...


class ResumableFit(Protocol):
    """Fit a method, or go on from the files of `checkpoint` where there are any, to the same posterior."""

    def __call__(
        self,
        source: SourceModel,
        data: TargetData,
        config: Any,
        *,
        seed: int,
        device: str = "auto",
        progress: Progress = no_progress,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior: ...


@dataclass(frozen=True)
class Method:
    """One transfer method: family, title, a line on what it does, one on what it costs, its settings and its fit.

    `resumable` is the same fit where it can go on after a break; None where it starts anew. `needs` names the part that
    a source must carry for it beyond its point estimate, "" for none.
    With `levels` it learns from features behind the descriptor's, such as electron levels, as from the others; without,
    the first of them is its baseline (`baseline`).
    With `new_elements` it learns from the target alone what elements that the source has never seen are worth
    (`sources.new_elements`); others without transfer take the descriptor for the structures' elements then, and of the
    rest such structures are left out.
    A method with `fit_together` takes all networks of a source into one model; of the others, the posteriors from each
    network are mixed.
    """

    name: str
    family: Family
    title: str
    summary: str
    cost: str
    config: type
    fit: Fit
    resumable: ResumableFit | None = None
    fit_together: FitTogether | None = None
    needs: Need = ""
    levels: bool = False
    new_elements: bool = False

    def fit_or_resume(
        self,
        source: SourceModel,
        data: TargetData,
        config: Any,
        *,
        seed: int,
        device: str = "auto",
        progress: Progress = no_progress,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Fit, with what is behind the descriptor's features as a baseline where the method does not learn from it.

        A method that can go on from a checkpoint is given this one.
        """
        baseline, n_features = None, source.network.n_features
        if not self.levels and data.features.shape[1] > n_features:
            baseline, left = fit_baseline(
                source, data.features, data.gaps_eV, column=n_features, beside_source=self.transfers
            )
            data = TargetData(data.features[:, :n_features], left)
        if self.resumable is None:
            posterior = self.fit(source, data, config, seed=seed, device=device, progress=progress)
        else:
            posterior = self.resumable(
                source, data, config, seed=seed, device=device, progress=progress, checkpoint=checkpoint
            )
        return posterior if baseline is None else with_baseline(posterior, baseline, seed=seed)

    @property
    def transfers(self) -> bool:
        """Whether it learns from a source model; the others do without one."""
        return self.family != WITHOUT_TRANSFER

    @property
    def moves_hidden_layers(self) -> bool:
        """Whether it moves weights of a source model below the output layer."""
        return self.transfers and self.family != OUTPUT_LAYER_ALONE

    def configure(self, settings: Mapping[str, Any]) -> Any:
        """Build the method's config from plain settings; raises ConfigError that names an unknown one."""
        return from_dict(self.config, settings, where=self.name)
