"""Proposed molecules against draws from the training set: whose GFN2-xTB gap lies in a window?

The demo molecules have GFN2-xTB gaps. A run learns from the molecules of the demo crystals, which
the source has not seen, with gaps and geometries of the same kind. Molecules are proposed for a
window by the edge-by-edge network, by random mutation of demo molecules and, where the package
selfies is installed, by random changes of their SELFIES. The gap of each new molecule of the lists
is computed by GFN2-xTB at its force-field geometry. All are compared with random molecules of the
training set.
"""

import dataclasses
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.table import LabelledSet
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.tight_binding import NoLevelsError, levels_eV
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.predictions.window import Window
from bandgap.proposals.candidates import (
    KnownMolecules,
    MoleculeSampler,
    embedded_records,
    known_molecules,
    random_rows,
)
from bandgap.research.molecules.molecule_training import (
    MoleculeGenerator,
    MoleculeTraining,
    load_generator,
    save_generator,
    train_generator,
)
from bandgap.runs.molecule_proposals import (
    ProposalSettings,
    ProposedMolecules,
    propose_molecules,
)
from bandgap.runs.requests import TransferRequest
from bandgap.runs.transfer import transfer_run
from bandgap.structures import StructureRecord
from benchmarks import selfies_mutations

Floats = NDArray[np.float64]
METHOD: Final = "last_layer_ridge"
XTB: Final = "GFN2-xTB"


@dataclass(frozen=True)
class ProposeBenchmark:
    """Settings of the benchmark.

    The generators learn from `n_molecules` demo molecules, the run from `n_labelled` molecules of
    demo crystals.
    """

    window: Window = Window(3.0, 3.5)
    n_molecules: int = 5_000
    n_labelled: int = 400
    n_generated: int = 1_000
    count: int = 200
    n_steps: int = 1_500
    seed: int = 0


def run_propose(
    config: ProposeBenchmark,
    *,
    generator_folder: Path | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return the figures of all generators and of draws from the training set.

    The network is read from `generator_folder` if it is stored there, else written to it after the
    training; the time of a training is measured where there is one.
    """
    demo = load_demo("molecules")
    rows = random_rows(len(demo.records), config.n_molecules, seed=config.seed)
    known_set = known_molecules([demo.records[row] for row in rows], progress=progress)
    gap_of = {record.id: float(gap) for record, gap in zip(demo.records, demo.gaps_eV, strict=True)}
    drawn_rows = random_rows(len(known_set.records), config.count, seed=config.seed + 1)
    drawn_gaps = np.array([gap_of[known_set.records[row].id] for row in drawn_rows])
    all_gaps = np.array([gap_of[record.id] for record in known_set.records])
    network, training_s = _network(known_set, config, generator_folder, progress)
    samplers: dict[str, MoleculeSampler | None] = {"network": network, "mutation": None}
    if selfies_mutations.is_installed():
        samplers["SELFIES"] = selfies_mutations.SelfiesMutations(known_set)
    figures: dict[str, Any] = {
        "config": dataclasses.asdict(config),
        "share_of_all_training_molecules": share_in_window(all_gaps, config.window),
        "training set": {"share": share_in_window(drawn_gaps, config.window), "n": len(drawn_gaps)},
        "training_s": training_s,
        "training": network.manifest["training"] | network.manifest["figures"],
    }
    with tempfile.TemporaryDirectory() as folder:
        labelled = _molecules_of_crystals(config, progress)
        request = TransferRequest(method=METHOD, n_test=0, seed=config.seed)
        run_folder = transfer_run(
            demo_source_folder(),
            labelled,
            request,
            out=Path(folder) / "run",
            cache=cache,
            progress=progress,
        )
        for name, sampler in samplers.items():
            started = time.perf_counter()
            proposed = propose_molecules(
                run_folder,
                known_set,
                ProposalSettings(
                    config.window,
                    count=config.count,
                    n_generated=config.n_generated,
                    seed=config.seed,
                ),
                generator=sampler,
                cache=cache,
                progress=progress,
            )
            seconds = time.perf_counter() - started
            figures[name] = _figures(proposed, all_gaps, seconds, config.window, progress)
    return figures


def _molecules_of_crystals(config: ProposeBenchmark, progress: Progress) -> LabelledSet:
    """Return molecules of demo crystals, embedded from their SMILES, with their GFN2-xTB gaps."""
    table = load_demo("crystals").table.drop_duplicates("smiles")
    rows = random_rows(len(table), config.n_labelled, seed=config.seed)
    gap_of = dict(zip(table["smiles"].iloc[rows], table["molecule_gap_eV"].iloc[rows], strict=True))
    records = embedded_records(list(gap_of), seed=config.seed, progress=progress)
    gaps = np.array([gap_of[str(record.info["smiles"])] for record in records], dtype=np.float64)
    return LabelledSet(records, gaps, XTB)


def _network(
    known_set: KnownMolecules, config: ProposeBenchmark, folder: Path | None, progress: Progress
) -> tuple[MoleculeGenerator, float | None]:
    """Return the network and the seconds of its training, None where it was stored."""
    if folder is not None and (folder / "manifest.json").exists():
        return load_generator(folder), None
    started = time.perf_counter()
    network = train_generator(
        known_set.graphs,
        known_set.smiles,
        MoleculeTraining(n_steps=config.n_steps),
        seed=config.seed,
        progress=progress,
    )
    seconds = time.perf_counter() - started
    if folder is not None:
        save_generator(network, folder)
    return network, seconds


def _figures(
    proposed: ProposedMolecules,
    training_gaps: Floats,
    seconds: float,
    window: Window,
    progress: Progress,
) -> dict[str, Any]:
    """Return shares and times of one list; gaps of its new molecules are computed."""
    predictions = proposed.predictions
    p_window = predictions.window_probability(window)
    new_rows = [row for row in proposed.rows if not proposed.is_candidate_known[row]]
    gaps = xtb_gaps_eV([proposed.candidates[row] for row in new_rows], progress=progress)
    is_computed = np.isfinite(gaps)
    errors = (predictions.mean_eV[new_rows] - gaps)[is_computed]
    counts = proposed.counts
    n_inside = sum(status == "ok" for status in proposed.predictions.status)
    return {
        "share": share_in_window(gaps, window),
        "n": len(new_rows),
        "n_without_gap": int((~is_computed).sum()),
        "expected_share": float(p_window[new_rows].mean()),
        "rmse_eV": float(np.sqrt(np.mean(errors**2))),
        "counts": dataclasses.asdict(counts),
        "inside_domain": n_inside / counts.sampled,
        "mean_predicted_eV": float(np.nanmean(proposed.predictions.mean_eV)),
        "mean_training_eV": float(training_gaps.mean()),
        "geometry_rms_eV": proposed.geometry_rms_eV,
        "property_distances": proposed.property_shift,
        "property_distances_of_halves": proposed.property_floor,
        "seconds": seconds,
    }


def xtb_gaps_eV(records: list[StructureRecord], *, progress: Progress = no_progress) -> Floats:
    """Return the GFN2-xTB gaps (n,) of molecules in eV, NaN where there is none."""
    gaps = np.full(len(records), np.nan)
    for row, record in enumerate(records):
        progress(Update("computing gaps by GFN2-xTB", row, len(records)))
        assert record.atoms is not None
        try:
            gaps[row] = levels_eV(record.atoms, method=XTB)[0]
        except NoLevelsError:
            continue
    return gaps


def share_in_window(gaps: Floats, window: Window) -> float:
    """Return the share of gaps in a window; molecules without a gap count as outside."""
    return float(np.mean((gaps >= window.lower_eV) & (gaps <= window.upper_eV)))


def names_of_lists(figures: Mapping[str, Any]) -> list[str]:
    """Return the names of the generators that made lists."""
    return [name for name in ("network", "mutation", "SELFIES") if name in figures]


def verdict(figures: Mapping[str, Any]) -> str:
    """Return the shares of the generators in words, relative to draws from the training set."""
    drawn = figures["training set"]["share"]
    parts = []
    for name in names_of_lists(figures):
        share = figures[name]["share"]
        comparison = (
            f"{share / drawn:.1f} times that of training molecules ({drawn:.1%})"
            if drawn
            else "of the training molecules that were drawn none"
        )
        parts.append(f"{name}: {share:.1%}, {comparison}")
    return "; ".join(parts) + "."
