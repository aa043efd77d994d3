"""Molecules to learn from and molecules to try: what is usable, and how many were not."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.proposals.chemistry import (
    NotAMoleculeError,
    embedded_atoms,
    graph_of_atoms,
    smiles_of_graph,
)
from bandgap.proposals.molecules import MOST_HEAVY_ATOMS, MoleculeGraph, Vocabulary
from bandgap.structures import StructureRecord

LEAST_USABLE_SHARE: Final = 0.2  # of the samples, below which a warning is given


@dataclass(frozen=True, eq=False)
class KnownMolecules:
    """Molecules of structures: graphs, canonical SMILES and records, n each, without repeats.

    `refused` counts the other structures by reason.
    """

    graphs: tuple[MoleculeGraph, ...]
    smiles: tuple[str, ...]
    records: tuple[StructureRecord, ...]
    refused: Counter[str]

    @property
    def sentence(self) -> str:
        """Return how many structures are used, and why others are not."""
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in self.refused.most_common())
        text = f"{len(self.graphs):,} different molecules to learn from."
        return text + (f" Reasons for not using others: {reasons}." if reasons else "")


@dataclass(frozen=True)
class CandidateCounts:
    """How many samples there are, and how many remain after each condition in turn.

    `complete` samples ended by themselves within the largest number of atoms, `valid` ones are
    sanitised by RDKit, `neutral` ones have no net charge, `usual` ones have no atom with more
    hydrogens than in the training set, `unique` ones are no repeats, and `novel` ones are not among
    the training molecules. `embedded` ones have a 3D geometry.
    """

    sampled: int
    complete: int
    valid: int
    neutral: int
    usual: int
    unique: int
    novel: int
    embedded: int = 0

    @property
    def sentence(self) -> str:
        """Return the counts as shares of the samples."""
        names = ("complete", "valid", "neutral", "usual", "unique", "novel", "embedded")
        shares = ", ".join(f"{getattr(self, name) / self.sampled:.1%} {name}" for name in names)
        return f"{self.sampled:,} molecules generated: {shares}."

    @property
    def warning(self) -> str:
        """Return a warning where few samples are usable, else ""."""
        if self.embedded >= LEAST_USABLE_SHARE * self.sampled:
            return ""
        return (
            f"Only {self.embedded:,} of {self.sampled:,} generated molecules are usable. Train the "
            "generator longer or on more molecules; the list has what there is."
        )


class MoleculeSampler(Protocol):
    """Generates molecules of the labels of a vocabulary.

    `training_smiles` are the molecules that it learned from; samples of more than `max_atoms` heavy
    atoms are not complete.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def training_smiles(self) -> tuple[str, ...]: ...

    @property
    def max_atoms(self) -> int: ...

    def sample(
        self, count: int, *, seed: int, progress: Progress = no_progress
    ) -> list[MoleculeGraph]:
        """Return random molecules."""


def known_molecules(
    records: Sequence[StructureRecord], *, progress: Progress = no_progress
) -> KnownMolecules:
    """Return the molecules of structures, with bonds perceived from the geometries.

    Raises InputError where no structure is a usable molecule.
    """
    graphs: list[MoleculeGraph] = []
    usable_records: list[StructureRecord] = []
    smiles_seen: dict[str, None] = {}
    refused: Counter[str] = Counter()
    for number, record in enumerate(records):
        if number % 100 == 0:
            progress(Update("perceiving bonds", number, len(records)))
        if record.atoms is None:
            refused["could not be read"] += 1
            continue
        try:
            graph = graph_of_atoms(record.atoms)
        except NotAMoleculeError as error:
            refused[str(error)] += 1
            continue
        smiles = smiles_of_graph(graph)
        if smiles is None:
            refused["is not sanitised by RDKit"] += 1
        elif len(graph.labels) > MOST_HEAVY_ATOMS:
            refused[f"has more than {MOST_HEAVY_ATOMS} heavy atoms"] += 1
        elif smiles in smiles_seen:
            refused["is a repeat"] += 1
        else:
            smiles_seen[smiles] = None
            graphs.append(graph)
            usable_records.append(record)
    progress(Update("perceiving bonds", len(records), len(records)))
    if not graphs:
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in refused.most_common())
        raise InputError(
            f"None of {len(records):,} structures is a molecule to learn from: {reasons or 'none'}."
            " Give isolated neutral molecules with all hydrogens, such as those of the source."
        )
    return KnownMolecules(tuple(graphs), tuple(smiles_seen), tuple(usable_records), refused)


def usable_candidates(
    graphs: Iterable[MoleculeGraph],
    training_smiles: Iterable[str],
    *,
    vocabulary: Vocabulary,
    max_atoms: int,
) -> tuple[dict[str, bool], CandidateCounts]:
    """Return the valid, neutral, usual, unique molecules by SMILES, and how many there are of each.

    The value is whether the molecule is one of the training molecules.
    """
    counts: Counter[str] = Counter()
    training = set(training_smiles)
    candidates: dict[str, bool] = {}
    for graph in graphs:
        counts["sampled"] += 1
        if len(graph.labels) > max_atoms:
            continue
        counts["complete"] += 1
        smiles = smiles_of_graph(graph)
        if smiles is None:
            continue
        counts["valid"] += 1
        if graph.charge:
            continue
        counts["neutral"] += 1
        if not vocabulary.has_usual_hydrogens(graph):
            continue
        counts["usual"] += 1
        candidates[smiles] = smiles in training
    return candidates, CandidateCounts(
        counts["sampled"],
        counts["complete"],
        counts["valid"],
        counts["neutral"],
        counts["usual"],
        unique=len(candidates),
        novel=sum(not is_known for is_known in candidates.values()),
    )


def embedded_records(
    smiles: Sequence[str], *, seed: int, progress: Progress = no_progress
) -> list[StructureRecord]:
    """Return records of molecules with a 3D geometry, in order; those without one are left out.

    The SMILES is in `info`, and ids are numbered.
    """
    records: list[StructureRecord] = []
    for number, text in enumerate(smiles):
        progress(Update("embedding molecules", number, len(smiles)))
        atoms = embedded_atoms(text, seed=seed)
        if atoms is not None:
            records.append(
                StructureRecord(
                    f"proposal-{len(records) + 1:04d}", "", "SMILES", atoms, info={"smiles": text}
                )
            )
    progress(Update("embedding molecules", len(smiles), len(smiles)))
    return records


def random_rows(n: int, count: int, *, seed: int) -> list[int]:
    """Return `count` different random rows of n, all where there are fewer."""
    rows: list[int] = np.random.default_rng(seed).permutation(n)[:count].tolist()
    return rows
