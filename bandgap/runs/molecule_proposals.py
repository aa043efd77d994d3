"""Molecules to try next: generated, embedded in 3D, predicted by a run, ranked for a window.

Experimental. The predicted gap is that which the run gives an isolated molecule with a force-field
geometry. No packing is proposed, and nothing here knows stability or synthesis.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import Count, Settings, WholeNumber
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.predictions.table import Predictions
from bandgap.predictions.window import Window
from bandgap.proposals.candidates import (
    CandidateCounts,
    KnownMolecules,
    MoleculeSampler,
    embedded_records,
    random_rows,
    usable_candidates,
)
from bandgap.proposals.chemistry import embedded_atoms
from bandgap.proposals.molecules import (
    MOST_HEAVY_ATOMS,
    MoleculeGraph,
    Vocabulary,
    mutated_molecules,
)
from bandgap.proposals.properties import property_distances
from bandgap.proposals.synthesis import accessibility_scores, structural_alerts
from bandgap.runs.prediction import predict_run
from bandgap.sources.stored_descriptor import load_descriptor
from bandgap.storage.manifests import read_manifest
from bandgap.structures import StructureRecord

Floats = NDArray[np.float64]

_MOST_PROPERTIES: Final = 2_000  # known molecules whose properties are compared
PACKING_NOTE: Final = (
    "The gaps are predicted for isolated molecules with force-field geometries. The crystal "
    "packing is unknown, as are stability and synthesis: confirm the first of the list by a "
    "calculation. The best of a ranked list tend to be predicted too well."
)


@dataclass(frozen=True)
class ProposalSettings(Settings):
    """What is proposed.

    Parameters
    ----------
    window
        Target window of the gap.
    count
        Number of new molecules in the list. Known molecules that rank as high are listed too.
    n_generated
        Number of molecules that are generated, of which the best are listed.
    n_compared
        Known molecules whose geometries are made again, to measure the error of the geometry.
    seed
        Seed of samples and geometries.
    """

    window: Window
    count: Count = 20
    n_generated: Count = 1_000
    n_compared: WholeNumber = 50
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ProposedMolecules:
    """Ranked molecules, best first, in the order of `ranked_rows`."""

    candidates: tuple[StructureRecord, ...]  # (n,), all that have a geometry
    predictions: Predictions  # of the candidates
    is_candidate_known: tuple[bool, ...]  # (n,)
    rows: tuple[int, ...]  # (k,), those of the candidates that are listed
    p_window: Floats  # (k,)
    accessibility: Floats  # (k,), scores of synthesis
    alerts: tuple[str, ...]  # (k,), structural alerts
    counts: CandidateCounts
    geometry_rms_eV: float | None  # None without compared molecules
    window: Window
    # Distances of properties by name: of the candidates from known molecules, and of two halves
    # of the latter; empty for a single known molecule.
    property_shift: dict[str, float]
    property_floor: dict[str, float]

    @property
    def records(self) -> tuple[StructureRecord, ...]:
        """The molecules of the list, (k,)."""
        return tuple(self.candidates[row] for row in self.rows)

    @property
    def is_known(self) -> tuple[bool, ...]:
        """Whether each molecule of the list is known, (k,)."""
        return tuple(self.is_candidate_known[row] for row in self.rows)

    @property
    def geometry_sentence(self) -> str:
        """Return the error by force-field geometries, with a warning where the ranking is noise."""
        if self.geometry_rms_eV is None:
            return "The error by force-field geometries was not measured."
        sd = float(np.nanmedian(self.predictions.sd_new_eV))
        text = (
            f"Geometries made from SMILES change the predictions for known molecules by "
            f"{self.geometry_rms_eV:.2f} eV (root mean square)."
        )
        if self.geometry_rms_eV > sd / 2:
            text += (
                f" This is more than half of the standard deviation of the predictions, {sd:.2f} "
                "eV: the order of the list is uncertain."
            )
        return text

    @property
    def property_sentence(self) -> str:
        """Return how far the properties of the candidates are from those of known molecules."""
        parts = (
            f"{name} {distance:.2f} ({self.property_floor[name]:.2f})"
            for name, distance in self.property_shift.items()
        )
        return (
            "Kolmogorov-Smirnov distances of the candidates from the known molecules, and of two "
            f"halves of the known ones in brackets: {', '.join(parts)}."
            if self.property_shift
            else ""
        )

    def columns(self) -> dict[str, list[object]]:
        """Return the columns of the table by name."""
        all_rows = self.predictions.to_columns(0.95, "prediction", window=self.window)
        columns: dict[str, list[object]] = {
            "rank": list(range(1, len(self.rows) + 1)),
            "id": [self.predictions.ids[row] for row in self.rows],
            "smiles": [record.info["smiles"] for record in self.records],
            "known": ["yes" if is_known else "no" for is_known in self.is_known],
        }
        for name, values in all_rows.items():
            if name not in ("id", "file"):
                columns[name] = [values[row] for row in self.rows]
        columns["sa_score"] = np.round(self.accessibility, 2).tolist()
        columns["alerts"] = list(self.alerts)
        columns["geometry_rms_eV"] = [self.geometry_rms_eV] * len(self.rows)
        return columns


def check_model(model_folder: Path | str) -> None:
    """Raise ConfigError where a run cannot predict a molecule from its geometry alone.

    Also where its descriptor needs a package that is not installed.
    """
    manifest = read_manifest(Path(model_folder), kind="run")
    name = str(manifest["request"]["baseline"])
    if name:
        raise ConfigError(
            f"This run corrects {name!r} of every structure, which a proposed molecule does not "
            "have. Use a run without a baseline."
        )
    for block, value in load_descriptor(Path(model_folder), manifest["descriptor"]).blocks:
        block.check(value)


def generated_molecules(
    known_set: KnownMolecules,
    count: int,
    *,
    generator: MoleculeSampler | None,
    seed: int,
    progress: Progress = no_progress,
) -> tuple[list[MoleculeGraph], Vocabulary, int]:
    """Return molecules, their atom labels, and the most heavy atoms that a complete one has.

    They are samples of a generator or, without one, random changes of known molecules.
    """
    if generator is not None:
        graphs = generator.sample(count, seed=seed, progress=progress)
        return graphs, generator.vocabulary, generator.max_atoms
    vocabulary = Vocabulary.of(known_set.graphs)
    rng = np.random.default_rng(seed)
    graphs = mutated_molecules(known_set.graphs, vocabulary, count, rng)
    return graphs, vocabulary, MOST_HEAVY_ATOMS


def propose_molecules(
    model_folder: Path | str,
    known_set: KnownMolecules,
    settings: ProposalSettings,
    *,
    generator: MoleculeSampler | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> ProposedMolecules:
    """Return molecules whose gap lies in a window with the highest probability.

    Parameters
    ----------
    model_folder
        Folder of a run.
    known_set
        Known molecules, which are marked in the list.
    settings
        Window, numbers and seed.
    generator
        A sampler such as `research.molecules.molecule_training.MoleculeGenerator`, or None for
        random changes of the known molecules.
    cache
        Cache of descriptors.
    progress
        Called with every step; may raise `Cancelled`.

    Raises
    ------
    ConfigError
        For a run with a baseline.
    InputError
        Where no generated molecule is usable, or the run predicts none of them.
    """
    check_model(model_folder)
    graphs, vocabulary, max_atoms = generated_molecules(
        known_set, settings.n_generated, generator=generator, seed=settings.seed, progress=progress
    )
    training_smiles = [*known_set.smiles, *(generator.training_smiles if generator else ())]
    candidates, counts = usable_candidates(
        graphs, training_smiles, vocabulary=vocabulary, max_atoms=max_atoms
    )
    records = embedded_records(list(candidates), seed=settings.seed, progress=progress)
    counts = dataclasses.replace(counts, embedded=len(records))
    if not records:
        raise InputError(f"No molecule is usable. {counts.sentence} Train the generator longer.")
    predictions = predict_run(model_folder, records, cache=cache, progress=progress)
    if all(status == "refused" for status in predictions.status):
        raise InputError(
            f"The run predicts none of {len(records):,} generated molecules. The first, "
            f"{records[0].info['smiles']}: {predictions.problem[0].rstrip('.')}. "
            "Learn from molecules of the elements of the run, or use another run."
        )
    p_window = predictions.window_probability(settings.window)
    is_known = [candidates[str(record.info["smiles"])] for record in records]
    rows = ranked_rows(predictions, p_window, is_known, count=settings.count)
    listed_smiles = [str(records[row].info["smiles"]) for row in rows]
    rms = _geometry_rms_eV(model_folder, known_set, settings, cache=cache, progress=progress)
    return ProposedMolecules(
        tuple(records),
        predictions,
        tuple(is_known),
        tuple(rows),
        p_window[rows],
        accessibility_scores(listed_smiles),
        tuple(structural_alerts(listed_smiles)),
        counts,
        rms,
        settings.window,
        *_property_distances(records, known_set, seed=settings.seed),
    )


def ranked_rows(
    predictions: Predictions, p_window: Floats, is_known: Sequence[bool], *, count: int
) -> list[int]:
    """Return rows of predictions, best first, up to `count` new molecules.

    They are ordered by the probability of the window. Rows with a warning, such as outside of the
    domain, follow all others; refused ones are left out. Ties go to the smaller standard deviation.
    """
    usable = [i for i, status in enumerate(predictions.status) if status != "refused"]
    usable.sort(
        key=lambda i: (
            predictions.status[i] == "warning",
            -p_window[i],
            predictions.sd_new_eV[i],
        )
    )
    rows: list[int] = []
    n_new = 0
    for row in usable:
        if n_new == count:
            break
        rows.append(row)
        n_new += not is_known[row]
    return rows


def _property_distances(
    records: Sequence[StructureRecord], known_set: KnownMolecules, *, seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the distances of candidates from known molecules, and of two halves of the latter."""
    rows = random_rows(len(known_set.smiles), _MOST_PROPERTIES, seed=seed)
    if len(rows) < 2:
        return {}, {}
    smiles = [known_set.smiles[row] for row in rows]
    shift = property_distances([str(record.info["smiles"]) for record in records], smiles)
    return shift, property_distances(smiles[::2], smiles[1::2])


def _geometry_rms_eV(
    model_folder: Path | str,
    known_set: KnownMolecules,
    settings: ProposalSettings,
    *,
    cache: DescriptorCache | None,
    progress: Progress,
) -> float | None:
    """Return the root mean square change of predictions by geometries made from SMILES."""
    given_records: list[StructureRecord] = []
    made_from_smiles: list[StructureRecord] = []
    for row in random_rows(len(known_set.records), settings.n_compared, seed=settings.seed):
        atoms = embedded_atoms(known_set.smiles[row], seed=settings.seed)
        if atoms is not None:
            given_records.append(known_set.records[row])
            made_from_smiles.append(dataclasses.replace(known_set.records[row], atoms=atoms))
    if not given_records:
        return None
    both = predict_run(
        model_folder, [*given_records, *made_from_smiles], cache=cache, progress=progress
    )
    means = both.mean_eV.reshape(2, -1)
    changes = means[1] - means[0]
    changes = changes[np.isfinite(changes)]
    return float(np.sqrt(np.mean(changes**2))) if changes.size else None
