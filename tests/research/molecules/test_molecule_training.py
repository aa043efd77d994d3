"""Training, sampling and storage of generators: seeds, cancel, reopening, damage."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.demo import load_demo
from bandgap.foundation.errors import ArtifactError, Cancelled, InputError
from bandgap.foundation.progress import Update
from bandgap.proposals.candidates import known_molecules, usable_candidates
from bandgap.proposals.chemistry import smiles_of_graph
from bandgap.proposals.molecules import MoleculeGraph
from bandgap.research.molecules.molecule_training import (
    MoleculeGenerator,
    MoleculeTraining,
    _batches,
    load_generator,
    save_generator,
    train_generator,
)
from tests.unit.proposals.conftest import SMILES

SMALL = MoleculeTraining(n_steps=12, batch_size=8, width=8, hidden=16, validation_share=0.2)


def trained(molecules: list[MoleculeGraph], *, seed: int = 0) -> MoleculeGenerator:
    return train_generator(molecules * 3, SMILES, SMALL, seed=seed)


def smiles_of(generator: MoleculeGenerator, *, seed: int = 5) -> list[str | None]:
    return [smiles_of_graph(graph) for graph in generator.sample(30, seed=seed)]


def test_every_molecule_is_in_one_batch_of_an_epoch() -> None:
    rows = np.arange(5, 400)
    rng = np.random.default_rng(0)
    batches = _batches(rows, rng.integers(1, 30, size=400), 8, rng)
    assert sorted(np.concatenate(batches)) == rows.tolist()
    assert max(map(len, batches)) == 8


def test_equal_seeds_give_equal_generators_and_samples(molecules: list[MoleculeGraph]) -> None:
    first, again, other = (trained(molecules, seed=seed) for seed in (0, 0, 1))
    assert smiles_of(first) == smiles_of(again)
    assert smiles_of(first) != smiles_of(first, seed=6)
    assert first.manifest["figures"] == again.manifest["figures"]
    assert first.manifest["figures"] != other.manifest["figures"]


def test_stored_generator_samples_the_same_in_a_new_process(
    molecules: list[MoleculeGraph], tmp_path: Path
) -> None:
    generator = trained(molecules)
    save_generator(generator, tmp_path / "generator")
    names = {path.name for path in (tmp_path / "generator").iterdir()}
    assert names == {"manifest.json", "molecules.txt", "weights.safetensors"}
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from bandgap.proposals.chemistry import smiles_of_graph\n"
        "from bandgap.research.molecules.molecule_training import load_generator\n"
        "generator = load_generator(Path(sys.argv[1]))\n"
        "print(json.dumps([smiles_of_graph(g) for g in generator.sample(30, seed=5)]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "generator")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == smiles_of(generator)


def test_damaged_folder_is_an_error(molecules: list[MoleculeGraph], tmp_path: Path) -> None:
    folder = tmp_path / "generator"
    save_generator(trained(molecules), folder)
    assert load_generator(folder).training_smiles == SMILES
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["network"]["width"] = 9
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(ArtifactError, match="has shape"):
        load_generator(folder)


def test_generator_does_not_replace_other_files(
    molecules: list[MoleculeGraph], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="other files"):
        save_generator(trained(molecules), tmp_path)


def test_training_can_be_cancelled(molecules: list[MoleculeGraph]) -> None:
    updates: list[Update] = []

    def cancel(update: Update) -> None:
        updates.append(update)
        if update.done == 3:
            raise Cancelled("Cancelled.")

    with pytest.raises(Cancelled):
        train_generator(molecules * 3, SMILES, SMALL, seed=0, progress=cancel)
    assert [update.done for update in updates] == [1, 2, 3]


@pytest.mark.slow
def test_trained_generator_makes_valid_new_molecules() -> None:
    """After 300 steps on demo molecules: at least 99 % sanitised, most complete, unique and new."""
    known_set = known_molecules(load_demo("molecules").records[:2_000])
    settings = MoleculeTraining(n_steps=300)
    generator = train_generator(known_set.graphs, known_set.smiles, settings, seed=0)
    graphs = generator.sample(500, seed=0)
    _, counts = usable_candidates(
        graphs,
        known_set.smiles,
        vocabulary=generator.vocabulary,
        max_atoms=generator.network.config.max_atoms,
    )
    sanitised = [smiles_of_graph(graph) is not None for graph in graphs]
    assert np.mean(sanitised) >= 0.99  # also those that were cut off at the largest size
    assert counts.valid >= 0.99 * counts.complete
    assert counts.complete >= 0.7 * counts.sampled
    assert counts.unique >= 0.9 * counts.neutral
    assert counts.novel >= 0.9 * counts.unique
    rings = np.mean([len(graph.edges) - len(graph.labels) + 1 for graph in graphs])
    rings_of_known = np.mean([len(g.edges) - len(g.labels) + 1 for g in known_set.graphs])
    assert abs(rings - rings_of_known) < 0.5 * rings_of_known
