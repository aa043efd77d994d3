"""A small problem for tests of learning: 24 labelled molecules and a tiny source model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ase.build import molecule

from bandgap.datasets.table import LabelledSet
from bandgap.descriptors import DescriptorConfig, Term
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.training import TrainingConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder, train_sources_run
from bandgap.structures import Problem, StructureRecord

DESCRIPTOR = DescriptorConfig(
    species=("H", "C", "O"),
    k1=Term("atomic_number", 0.0, 20.0, 4, 2.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 8, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)
SOURCE = SourceConfig(
    hidden=(8, 4), training=TrainingConfig(max_epochs=60, batch_size=8, learning_rate=5e-3)
)
NAMES = ("CH4", "C2H2", "C2H4", "C2H6", "CH3OH", "H2CO")


@dataclass(frozen=True, eq=False)
class World:
    """Labelled molecules for target and source, and two records that cannot be predicted."""

    records: list[StructureRecord]
    gaps_eV: np.ndarray  # (n,)
    broken: StructureRecord
    foreign: StructureRecord
    descriptor: DescriptorConfig
    source_config: SourceConfig
    source_records: list[StructureRecord]
    source_gaps_eV: np.ndarray


def record_of(identifier: str, atoms, *problems: Problem) -> StructureRecord:
    return StructureRecord(identifier, "made.xyz", "XYZ", atoms, problems)


def make_records(
    n: int, *, seed: int, prefix: str, names: Sequence[str] = NAMES
) -> list[StructureRecord]:
    """Small molecules, every atom displaced by about 0.05 angstroms."""
    rng = np.random.default_rng(seed)
    records = []
    for i in range(n):
        atoms = molecule(names[i % len(names)])
        atoms.positions += rng.normal(0.0, 0.05, atoms.positions.shape)
        records.append(record_of(f"{prefix}-{i:02d}", atoms))
    return records


def gaps_of(records: list[StructureRecord], *, seed: int, shift: float = 0.0) -> np.ndarray:
    """Made-up gaps: fewer hydrogens and more oxygen make them smaller, noise of 0.1 eV."""
    counts = [
        (int((r.atoms.numbers == 1).sum()), int((r.atoms.numbers == 8).sum())) for r in records
    ]
    noise = np.random.default_rng(seed).normal(0.0, 0.1, len(records))
    return np.array([4.0 + 0.7 * h - 1.5 * o for h, o in counts]) + noise + shift


@pytest.fixture(scope="session")
def world() -> World:
    records = make_records(24, seed=1, prefix="target")
    broken = record_of("broken", None, Problem("refused", "block 1 has no atoms."))
    return World(
        records,
        gaps_of(records, seed=2, shift=-0.5),
        broken,
        record_of("foreign", molecule("SiH4")),
        DESCRIPTOR,
        SOURCE,
        (source_records := make_records(36, seed=3, prefix="source")),
        gaps_of(source_records, seed=4),
    )


@pytest.fixture(scope="session")
def source_folder(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source model trained briefly on 36 molecules; tests must not change the folder."""
    return train_source_folder(
        world.source_records,
        world.source_gaps_eV,
        descriptor=DESCRIPTOR,
        config=SOURCE,
        out=tmp_path_factory.mktemp("source"),
        seed=0,
        level_of_theory="made up",
        licence="CC0-1.0",
        device="cpu",
    )


@pytest.fixture(scope="session")
def joint_sets(world: World) -> dict[str, LabelledSet]:
    """Two unequal parts of the source molecules, one of them with other gaps."""
    return {
        "plain": LabelledSet(world.source_records[:14], world.source_gaps_eV[:14], "PBE"),
        "other": LabelledSet(
            world.source_records[14:], 30.0 - 3.0 * world.source_gaps_eV[14:], "GW"
        ),
    }


@pytest.fixture(scope="session")
def joint_folder(
    world: World, joint_sets: dict[str, LabelledSet], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two joint source networks with one output for each set; tests must not change the folder."""
    variational = tuple(
        VariationalConfig(epochs=8, batch_size=8, kl_weight=weight) for weight in (0.7, 0.1)
    )
    return train_sources_run(
        joint_sets,
        descriptor=DESCRIPTOR,
        config=SourceConfig(
            hidden=(8, 4),
            variational=variational,
            snapshots=SnapshotConfig(count=5, rank=3, burn_in=1, batch_size=8),
        ),
        training=JointTrainingConfig(
            steps=200, batch_size=16, warmup_steps=10, learning_rate=1e-2, validation_share=0.2
        ),
        members=2,
        out=tmp_path_factory.mktemp("joint"),
        seed=3,
        device="cpu",
    )
