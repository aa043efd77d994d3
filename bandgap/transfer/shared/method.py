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
from bandgap.transfer.shared.cost import Cost

Family = Literal[
    "all layers, Bayesian",
    "output layer alone",
    "many trained networks",
    "one trained network",
    "without transfer",
]

Need = Literal["", "fisher", "variational", "snapshots"]
Standing = Literal["recommended", "alternative", "research"]

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
            raise InputError(
                f"features of {rows} structures, gaps of {n}: one gap for each is expected."
            )
        if not np.isfinite(self.features).all() or not np.isfinite(self.gaps_eV).all():
            raise InputError(
                "features or gaps of the training rows are not finite. Leave out refused structures first."
            )
        if float(np.std(self.gaps_eV)) <= 0:
            raise InputError(
                f"all {n} labels are {self.gaps_eV[0]} eV. A transfer needs gaps that differ."
            )


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


@dataclass(frozen=True, kw_only=True)
class Method:
    """Everything that the package knows of one transfer method.

    Attributes
    ----------
    name
        Name in requests, and of the method's module.
    family
        Heading under which it is listed.
    standing
        Whether it is recommended, an alternative, or for research.
    title, summary
        What it is called on pages, and one sentence on what it does.
    duration, cost
        How long a fit takes, in words for a user and as a formula for estimates.
    config
        Dataclass of its settings.
    fit
        Fits it to the rows of a target.
    resumable
        The same fit with checkpoints, None for a method that cannot resume.
    fit_together
        Fits one model from all networks of a source. Without it, the posteriors from each network are mixed.
    needs
        Extra that a source must have for it, "" for none.
    levels
        Whether it learns from electron levels as from other features. Otherwise the first of them is its baseline.
    new_elements
        Whether it learns from the target what elements are worth that the source has never seen
        (`sources.new_elements`). Other methods leave such structures out, or use no source.
    """

    name: str
    family: Family
    standing: Standing
    title: str
    summary: str
    duration: str
    cost: Cost
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
                source,
                data,
                config,
                seed=seed,
                device=device,
                progress=progress,
                checkpoint=checkpoint,
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
