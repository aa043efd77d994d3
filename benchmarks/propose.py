"""Proposed molecules against draws from the training set: whose GFN2-xTB gap lies in a window?

The demo molecules have GFN2-xTB gaps. A run learns from the molecules of the demo crystals, which
the source has not seen, with gaps and geometries of the same kind. Molecules are proposed for a
window by the edge-by-edge network and by random mutation of demo molecules, and the gap of each new
molecule of both lists is computed by GFN2-xTB at its force-field geometry. Both are compared with
random molecules of the training set.
"""

import dataclasses
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

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
    embedded_records,
    known_molecules,
    random_rows,
)
from bandgap.proposals.molecule_training import (
    MoleculeGenerator,
    MoleculeTraining,
    load_generator,
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

Floats = NDArray[np.float64]
GenerateBy = Literal["network", "mutation"]

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
    """Return the figures of both generators and of draws from the training set.

    A stored generator is used where a folder is given; its training time is then not measured.
    """
    demo = load_demo("molecules")
    rows = random_rows(len(demo.records), config.n_molecules, seed=config.seed)
    known_set = known_molecules([demo.records[row] for row in rows], progress=progress)
    gap_of = {record.id: float(gap) for record, gap in zip(demo.records, demo.gaps_eV, strict=True)}
    drawn_rows = random_rows(len(known_set.records), config.count, seed=config.seed + 1)
    drawn_gaps = np.array([gap_of[known_set.records[row].id] for row in drawn_rows])
    all_gaps = np.array([gap_of[record.id] for record in known_set.records])
    started = time.perf_counter()
    generator = (
        _trained(known_set, config, progress)
        if generator_folder is None
        else load_generator(generator_folder)
    )
    training_s = time.perf_counter() - started
    figures: dict[str, Any] = {
        "config": dataclasses.asdict(config),
        "share_of_all_training_molecules": share_in_window(all_gaps, config.window),
        "training set": {"share": share_in_window(drawn_gaps, config.window), "n": len(drawn_gaps)},
        "training_s": None if generator_folder is not None else training_s,
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
        for name, network in (("network", generator), ("mutation", None)):
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
                generator=network,
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


def _trained(
    known_set: KnownMolecules, config: ProposeBenchmark, progress: Progress
) -> MoleculeGenerator:
    settings = MoleculeTraining(n_steps=config.n_steps)
    return train_generator(
        known_set.graphs, known_set.smiles, settings, seed=config.seed, progress=progress
    )


def _figures(
    proposed: ProposedMolecules,
    training_gaps: Floats,
    seconds: float,
    window: Window,
    progress: Progress,
) -> dict[str, Any]:
    """Return shares and times of one list; gaps of its new molecules are computed."""
    new = [
        record
        for record, is_known in zip(proposed.records, proposed.is_known, strict=True)
        if not is_known
    ]
    gaps = xtb_gaps_eV(new, progress=progress)
    is_computed = np.isfinite(gaps)
    predicted = np.array(
        [
            mean
            for mean, is_known in zip(
                proposed.predictions.mean_eV[list(proposed.rows)], proposed.is_known, strict=True
            )
            if not is_known
        ]
    )
    counts = proposed.counts
    n_inside = sum(status == "ok" for status in proposed.predictions.status)
    return {
        "share": share_in_window(gaps, window),
        "n": len(new),
        "n_without_gap": int((~is_computed).sum()),
        "expected_share": float(
            np.mean([p for p, k in zip(proposed.p_window, proposed.is_known, strict=True) if not k])
        ),
        "rmse_eV": float(np.sqrt(np.mean((predicted - gaps)[is_computed] ** 2))),
        "counts": dataclasses.asdict(counts),
        "inside_domain": n_inside / counts.sampled,
        "mean_predicted_eV": float(np.nanmean(proposed.predictions.mean_eV)),
        "mean_training_eV": float(training_gaps.mean()),
        "geometry_rms_eV": proposed.geometry_rms_eV,
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


def verdict(figures: Mapping[str, Any]) -> str:
    """Return the shares of both generators in words, relative to draws from the training set."""
    drawn = figures["training set"]["share"]
    parts = []
    for name in ("network", "mutation"):
        share = figures[name]["share"]
        ratio = f"{share / drawn:.1f} times" if drawn else "more than"
        parts.append(f"{name}: {share:.1%}, {ratio} that of training molecules ({drawn:.1%})")
    return "; ".join(parts) + "."
