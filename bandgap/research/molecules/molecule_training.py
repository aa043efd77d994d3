"""Training, sampling and storage of a network that proposes molecules."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.foundation.config import Count, Positive, ProperShare, Settings
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.proposals.molecules import (
    MOST_HEAVY_ATOMS,
    AtomLabel,
    MoleculeGraph,
    Vocabulary,
)
from bandgap.research.molecules.edge_network import Device
from bandgap.research.molecules.edge_training import GRADIENT_NORM
from bandgap.research.molecules.molecule_network import (
    MoleculeNetwork,
    MoleculeNetworkConfig,
    batch_of_walks,
    log_likelihood,
    sample_walks,
)
from bandgap.research.molecules.walks import graph_of_walk, random_walk
from bandgap.storage.manifests import (
    SCHEMA,
    damage_reported,
    read_manifest,
    versions,
    write_manifest,
)
from bandgap.storage.result_folders import check_result_folder, replaced_result
from bandgap.storage.tensors import load_tensors, save_tensors

KIND: Final = "generator"
LEAST_MOLECULES: Final = 20
_WEIGHTS: Final = "weights.safetensors"
_MOLECULES: Final = "molecules.txt"
_SAMPLED_TOGETHER: Final = 256
_SORTED_TOGETHER: Final = 8  # batches
_STEPS_BETWEEN_VALIDATIONS: Final = 100


@dataclass(frozen=True)
class MoleculeTraining(Settings):
    """Settings of the training.

    Parameters
    ----------
    n_steps
        Most updates of the parameters.
    batch_size
        Molecules of an update.
    learning_rate
        At the start; it falls to zero as a cosine.
    validation_share
        Share of the molecules for early stopping.
    patience
        Validations, one every 100 steps, without a gain after which the training ends.
    width, hidden
        Sizes of the network.
    """

    n_steps: Count = 2_000
    batch_size: Count = 64
    learning_rate: Positive = 3e-3
    validation_share: ProperShare = 0.05
    patience: Count = 10
    width: Count = 48
    hidden: Count = 96


@dataclass(frozen=True, eq=False)
class MoleculeGenerator:
    """A trained network with the labels and the canonical SMILES of its training molecules."""

    network: MoleculeNetwork
    vocabulary: Vocabulary
    training_smiles: tuple[str, ...]
    manifest: dict[str, Any]

    @property
    def max_atoms(self) -> int:
        """Largest number of heavy atoms of a sample that counts as complete."""
        return self.network.config.max_atoms

    def sample(
        self, count: int, *, seed: int, progress: Progress = no_progress
    ) -> list[MoleculeGraph]:
        """Return random molecules; those beyond the largest number of atoms are cut off there."""
        generator = torch.Generator().manual_seed(seed)
        graphs: list[MoleculeGraph] = []
        while len(graphs) < count:
            progress(Update("sampling molecules", len(graphs), count))
            n = min(_SAMPLED_TOGETHER, count - len(graphs))
            walks = sample_walks(self.network, n, generator)
            graphs += [graph_of_walk(walk, self.vocabulary) for walk in walks]
        progress(Update("sampling molecules", count, count))
        return graphs


def train_generator(
    graphs: Sequence[MoleculeGraph],
    smiles: Sequence[str],
    training: MoleculeTraining | None = None,
    *,
    seed: int,
    device: Device = "cpu",
    progress: Progress = no_progress,
) -> MoleculeGenerator:
    """Train a network on molecules.

    Parameters
    ----------
    graphs, smiles
        Training molecules and their canonical SMILES, n of each. Molecules of more than 30 heavy
        atoms are left out.
    training
        Settings.
    seed
        Seed of the parameters, of the validation molecules, and of the orders of bonds.
    device
        Device of torch on which the network is trained and stays.
    progress
        Called after every update; may raise `Cancelled`.

    Raises
    ------
    InputError
        For less than 20 usable molecules.
    """
    settings = training or MoleculeTraining()
    usable = [graph for graph in graphs if len(graph.labels) <= MOST_HEAVY_ATOMS]
    if len(usable) < LEAST_MOLECULES:
        raise InputError(
            f"{len(usable)} molecules of up to {MOST_HEAVY_ATOMS} heavy atoms. At least "
            f"{LEAST_MOLECULES} are needed to train; a few thousand are better."
        )
    vocabulary = Vocabulary.of(usable)
    config = MoleculeNetworkConfig(
        len(vocabulary.labels),
        settings.width,
        settings.hidden,
        max_atoms=max(len(graph.labels) for graph in usable),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = MoleculeNetwork(config, vocabulary.labels).to(device)
    figures = _trained(network, usable, vocabulary, settings, seed=seed, progress=progress)
    manifest = {
        "kind": KIND,
        "schema": SCHEMA,
        "versions": versions(),
        "network": dataclasses.asdict(config),
        "vocabulary": [dataclasses.astuple(label) for label in vocabulary.labels],
        "counts": list(vocabulary.counts),
        "most_hydrogens": list(vocabulary.most_hydrogens),
        "training": dataclasses.asdict(settings),
        "seed": seed,
        "n_molecules": len(usable),
        "figures": figures,
    }
    return MoleculeGenerator(network, vocabulary, tuple(smiles), manifest)


def save_generator(generator: MoleculeGenerator, folder: Path) -> None:
    """Write a generator to a folder, whole or not at all, in the place of an earlier one.

    Raises InputError where the folder contains something else.
    """
    check_result_folder(folder, kind=KIND)
    with replaced_result(folder, kind=KIND) as new:
        save_tensors(
            {name: value.cpu() for name, value in generator.network.state_dict().items()},
            new / _WEIGHTS,
        )
        lines = "".join(f"{smiles}\n" for smiles in generator.training_smiles)
        (new / _MOLECULES).write_text(lines, encoding="utf-8", newline="\n")
        write_manifest(new, generator.manifest)


def load_generator(folder: Path) -> MoleculeGenerator:
    """Return a stored generator; raise ArtifactError if the folder is damaged or another result."""
    manifest = read_manifest(folder, kind=KIND)
    with damage_reported(folder):
        labels = tuple(AtomLabel(*label) for label in manifest["vocabulary"])
        vocabulary = Vocabulary(
            labels, tuple(manifest["counts"]), tuple(manifest["most_hydrogens"])
        )
        config = MoleculeNetworkConfig(**manifest["network"])
        network = MoleculeNetwork(config, vocabulary.labels)
        smiles = (folder / _MOLECULES).read_text(encoding="utf-8").split()
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    tensors = load_tensors(folder / _WEIGHTS, shapes)
    if not all(bool(torch.isfinite(value).all()) for value in tensors.values()):
        raise ArtifactError(f"{folder / _WEIGHTS} has values that are not finite. Train again.")
    network.load_state_dict(tensors)
    return MoleculeGenerator(network, vocabulary, tuple(smiles), manifest)


def _trained(
    network: MoleculeNetwork,
    graphs: Sequence[MoleculeGraph],
    vocabulary: Vocabulary,
    settings: MoleculeTraining,
    *,
    seed: int,
    progress: Progress,
) -> dict[str, float]:
    """Train a network in place; return its losses in nats per molecule and the number of steps."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(graphs))
    n_validation = max(1, round(settings.validation_share * len(graphs)))
    training_rows = order[n_validation:]
    sizes = np.array([len(graph.edges) for graph in graphs])
    validation = [random_walk(graphs[i], vocabulary, rng) for i in order[:n_validation]]
    device = network.start.output.weight.device
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.n_steps)
    best_loss = math.inf
    best_state = {name: value.clone() for name, value in network.state_dict().items()}
    n_without_gain = 0
    waiting: list[NDArray[np.int64]] = []
    loss_value = math.nan
    step = 0
    while step < settings.n_steps and n_without_gain < settings.patience:
        if not waiting:
            waiting = _batches(training_rows, sizes, settings.batch_size, rng)
        walks = [random_walk(graphs[i], vocabulary, rng) for i in waiting.pop()]
        optimiser.zero_grad()
        loss = -log_likelihood(network, batch_of_walks(walks, device=device)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_NORM)
        optimiser.step()
        schedule.step()
        step += 1
        loss_value = loss.item()
        if step % _STEPS_BETWEEN_VALIDATIONS == 0 or step == settings.n_steps:
            validation_loss = _mean_loss(network, validation, settings.batch_size)
            n_without_gain = 0 if validation_loss < best_loss else n_without_gain + 1
            if validation_loss < best_loss:
                best_loss = validation_loss
                best_state = {k: v.clone() for k, v in network.state_dict().items()}
        progress(
            Update("training the generator", step, settings.n_steps, values={"loss": loss_value})
        )
    network.load_state_dict(best_state)
    return {"loss": loss_value, "validation_loss": best_loss, "n_steps": step}


def _batches(
    rows: NDArray[np.int64], sizes: NDArray[np.int64], batch_size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return batches of molecules of similar numbers of bonds, so that little is padded.

    Molecules are sorted by size among `_SORTED_TOGETHER` random batches.
    """
    batches = []
    shuffled = rng.permutation(rows)
    for first in range(0, len(rows), _SORTED_TOGETHER * batch_size):
        group = shuffled[first : first + _SORTED_TOGETHER * batch_size]
        group = group[np.argsort(sizes[group], kind="stable")]
        batches += [group[k : k + batch_size] for k in range(0, len(group), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


@torch.no_grad()
def _mean_loss(network: MoleculeNetwork, walks: Sequence[Any], batch_size: int) -> float:
    device = network.start.output.weight.device
    total = 0.0
    for first in range(0, len(walks), batch_size):
        batch = batch_of_walks(walks[first : first + batch_size], device=device)
        total -= log_likelihood(network, batch).sum().item()
    return total / len(walks)
