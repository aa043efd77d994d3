"""The interface of a transfer method: its data, its settings of scales, and its entry `Method`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import Settings, from_dict
from bandgap.foundation.errors import BudgetError, InputError
from bandgap.foundation.machine import usable_bytes
from bandgap.foundation.progress import Progress, no_progress, progress_of
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
RESEARCH_HEADING: Final = (
    "Research methods: kept for their papers and for those who study methods; nothing proposes them"
)
MIN_ROWS = 5
LONG_H = 1 / 6  # of a fit whose time is said before it starts
# Methods whose time and memory grow with the number of rows: without and with a source.
MANY_ROWS: Final = ("fresh_networks", "last_layer_pcp")


@dataclass(frozen=True, eq=False)
class TargetData:
    """Labelled training rows of a target.

    Attributes
    ----------
    features
        Raw features (n, p).
    gaps_eV
        Gaps (n,) in eV.
    baseline
        Whether the last feature is an estimate of the gap in eV; methods then learn the difference
        to it.
    groups
        Numbers (n,) of groups that no fold divides, such as formulas; None for none.
    """

    features: NDArray[np.floating[Any]]
    gaps_eV: NDArray[np.float64]
    baseline: bool = False
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        n = self.gaps_eV.shape[0]
        if n < MIN_ROWS:
            raise InputError(
                f"{n} labelled structures are too few to transfer to. Give at least {MIN_ROWS}, "
                "better 50."
            )
        if self.features.shape[0] != n:
            rows = self.features.shape[0]
            raise InputError(
                f"features of {rows} structures, gaps of {n}: one gap for each is expected."
            )
        if not np.isfinite(self.features).all() or not np.isfinite(self.gaps_eV).all():
            raise InputError(
                "features or gaps of the training rows are not finite. Leave out refused "
                "structures first."
            )
        if float(np.std(self.gaps_eV)) <= 0:
            raise InputError(
                f"all {n} labels are {self.gaps_eV[0]} eV. A transfer needs gaps that differ."
            )


class ScaleChoice(TypedDict):
    """The arguments of `standardiser_for`."""

    statistics: StatisticsChoice
    gap_scale: GapScale


@dataclass(frozen=True)
class Scales(Settings):
    """Settings of a method that works on the source's scales.

    Attributes
    ----------
    standardise
        Whose feature statistics are used: the source's or the target's.
    gap_scale
        Whether the source's gaps are mapped to the target's by a straight line.
    """

    standardise: StatisticsChoice = "auto"
    gap_scale: GapScale = "calibrated"

    @property
    def scales(self) -> ScaleChoice:
        """These settings as arguments of `standardiser_for`."""
        return {"statistics": self.standardise, "gap_scale": self.gap_scale}


@dataclass(frozen=True, eq=False)
class Fitting:
    """How a method is fitted, beside its settings.

    Attributes
    ----------
    seed
        The same seed on the same device gives the same posterior.
    device
        "auto", "cpu" or "cuda".
    progress
        Is called during the fit; it can raise `Cancelled`.
    checkpoint
        File from which a resumable method resumes, with the same posterior.
    networks
        All networks of the source, for a method that takes them together: for each, a source model
        for every output. The method's own argument is the first network's output `head`.
    head
        The output of the target.
    """

    seed: int
    device: str = "auto"
    progress: Progress = no_progress
    checkpoint: Checkpoint | None = None
    networks: Sequence[Mapping[str, SourceModel]] = ()
    head: str = ""

    def of_network(self, i: int) -> "Fitting":
        """Return seed, progress and checkpoint of network i; the first has the seed itself."""
        seed, progress = self.seed, self.progress
        if i > 0:
            seed = int(np.random.SeedSequence([seed, i]).generate_state(1)[0] % 2**31)
        if len(self.networks) > 1:
            progress = progress_of(f"network {i + 1} of {len(self.networks)}", progress)
        checkpoint = None if self.checkpoint is None else self.checkpoint.of_part(i)
        return replace(self, seed=seed, progress=progress, checkpoint=checkpoint)


class Fit(Protocol):
    """Fits a method to the rows of a target."""

    def __call__(
        self, source: SourceModel, data: TargetData, config: Any, fitting: Fitting
    ) -> Posterior: ...


@dataclass(frozen=True, kw_only=True)
class Method:
    """The entry of one transfer method in the registry.

    Attributes
    ----------
    name
        Name in requests, and of the method's module.
    family
        Heading under which it is listed.
    standing
        Whether it is recommended, an alternative, or for research.
    title, summary
        Its name in the dashboard, and one sentence on what it does.
    references
        Papers that a result of it should cite, as plain text.
    duration, cost
        How long a fit takes, as text and as a formula for estimates.
    config
        Dataclass of its settings.
    fit
        Fits it to the rows of a target.
    together
        Whether it fits one model from all networks of a source. Otherwise the posteriors from each
        network are mixed.
    needs
        Extra that a source must have for it, "" for none.
    levels
        Whether it learns from electron levels as from other features. Otherwise the first of them
        is its baseline.
    new_elements
        Whether it can learn elements that the source lacks (`sources.new_elements`). Other methods
        leave out structures with such elements, or use no source.
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
    together: bool = False
    needs: Need = ""
    levels: bool = False
    new_elements: bool = False
    references: tuple[str, ...] = ()

    def fit_features(
        self, source: SourceModel, data: TargetData, config: Any, fitting: Fitting
    ) -> Posterior:
        """Fit; a feature after the descriptor's is a baseline unless the method learns from it.

        Raises BudgetError if its matrices do not fit into the memory of this machine.
        """
        self._check_memory(len(data.gaps_eV))
        baseline = None
        n_features = source.network.n_features
        if not self.levels and data.features.shape[1] > n_features:
            baseline, residuals_eV = fit_baseline(
                source, data.features, data.gaps_eV, column=n_features, with_source=self.transfers
            )
            data = TargetData(data.features[:, :n_features], residuals_eV, groups=data.groups)
        posterior = self.fit(source, data, config, fitting)
        if baseline is None:
            return posterior
        return with_baseline(posterior, baseline, seed=fitting.seed)

    def note_on_size(self, n: int) -> str:
        """Return what a long fit to n rows takes, and what fits instead.

        It is "" for a short fit, and for methods without matrices of all rows.
        """
        hours = self.cost.seconds(n, None) / 3600
        if not self.cost.matrices or hours < LONG_H:
            return ""
        return (
            f"{self.name} with {n:,} structures takes about {hours:.1f} hours of one core and "
            f"{self._matrix_bytes(n) / 1e9:.1f} GB of memory. The time grows with the cube of "
            f"their number, the memory with the square. {self._remedy()}"
        )

    def _matrix_bytes(self, n: int) -> int:
        return 8 * self.cost.matrices * n**2

    def _remedy(self) -> str:
        return f"Learn from fewer, or by {MANY_ROWS[self.transfers]}, which takes minutes."

    def _check_memory(self, n: int) -> None:
        usable = usable_bytes()
        if usable is not None and self._matrix_bytes(n) > usable:
            raise BudgetError(
                f"{self.name} with {n:,} structures needs {self._matrix_bytes(n) / 1e9:.1f} GB of "
                f"memory. {usable / 1e9:.1f} GB of this machine can be used. {self._remedy()}"
            )

    @property
    def heading(self) -> str:
        """The heading under which it is listed."""
        if self.standing == "research":
            return RESEARCH_HEADING
        return self.family[:1].upper() + self.family[1:]

    @property
    def transfers(self) -> bool:
        """Whether it learns from a source model."""
        return self.family != WITHOUT_TRANSFER

    @property
    def moves_hidden_layers(self) -> bool:
        """Whether it changes weights of a source model below the output layer."""
        return self.transfers and self.family != OUTPUT_LAYER_ALONE

    def configure(self, settings: Mapping[str, Any]) -> Any:
        """Build the method's config from plain settings; raises ConfigError for an unknown one."""
        return from_dict(self.config, settings, where=self.name)
