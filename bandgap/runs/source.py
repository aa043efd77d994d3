"""The training of a source model from labelled structures and a request."""

from pathlib import Path

from bandgap.datasets.checked import checked_set
from bandgap.datasets.table import LabelledSet
from bandgap.descriptors import DescriptorConfig, config_for
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.arguments import as_folder, check_type
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.networks.graph_config import GraphConfig
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import kl_weights_to_try
from bandgap.runs.requests import SourceRequest
from bandgap.sources.model import SourceConfig
from bandgap.sources.no_source import elements_to_learn
from bandgap.sources.training import train_source_folder


@checked_keywords(SourceRequest)
def train_source_run(
    data: LabelledSet,
    request: SourceRequest,
    *,
    out: Path | str,
    descriptor: DescriptorConfig | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Path:
    """Train a source model on labelled structures and write it to a folder.

    Parameters
    ----------
    data
        Structures of any kind that `as_records` takes, with their gaps (n,) in eV, their level of
        theory and their licence. Structures that are refused or have no gap (NaN) are left out.
    request
        Network, descriptor, data split and settings.
    out
        Folder to write, which `transfer_run` takes as a source.
    descriptor
        Descriptor of a perceptron, instead of the request's preset or species.
    cache
        Cache of descriptors on disk.
    progress
        Called with every step; may raise `Cancelled`.

    Returns
    -------
    Path
        The folder `out`.

    Raises
    ------
    InputError
        For structures of another kind, and for values that are not gaps. When no structures are
        left, or fewer than the request's split needs.
    ConfigError
        When a perceptron has no descriptor, and where the package of a graph network is not
        installed.
    """
    check_type(request, SourceRequest, name="request")
    folder = as_folder(out, name="out")
    data = checked_set(data)
    check_network(request)
    network: GraphConfig | None = None
    if request.network == "megnet":
        network = GraphConfig(tuple(elements_to_learn(data.records, data.gaps_eV)))
    return train_source_folder(
        data.records,
        data.gaps_eV,
        descriptor=network or descriptor or _named_descriptor(request),
        config=source_config(request),
        out=folder,
        seed=request.seed,
        level_of_theory=data.level_of_theory,
        licence=request.licence or data.licence,
        device=request.device,
        cache=cache,
        n_jobs=request.n_jobs,
        progress=progress,
    )


def check_network(request: SourceRequest) -> None:
    """Raise ConfigError where the package of the request's network is not installed."""
    if request.network == "megnet":
        import bandgap.networks.megnet  # noqa: F401 - it says how to install its package


def source_config(request: SourceRequest) -> SourceConfig:
    """Return the settings of the network, of its training and of its extras."""
    snapshots = None
    if request.snapshots is not None:  # moments need at least the default number of snapshots
        snapshots = SnapshotConfig(
            count=max(request.snapshots, SnapshotConfig.count), rank=request.snapshots
        )
    return SourceConfig(
        hidden=request.hidden_widths,
        training=TrainingConfig(max_epochs=request.max_epochs),
        variational=kl_weights_to_try(max_steps=request.variational_steps)
        if request.variational
        else (),
        snapshots=snapshots,
        split=request.split,
    )


def _named_descriptor(request: SourceRequest) -> DescriptorConfig:
    if request.preset is None and request.species is None:
        raise ConfigError(
            "no descriptor. Give a preset (such as oe62-16) or species (such as H C N O)."
        )
    return config_for(preset=request.preset, species=request.species)
