"""The shipped models of PBE gaps, from crystals of the Materials Project.

The gaps of non-metals are those of the Materials Project. That a crystal is a metal is inferred
from its absence in the table of gaps, which is wrong for some; metals that boosted trees take for
semiconductors, when they are left out, are not learned from.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from bandgap.datasets.table import LabelledSet, elements_of, learnable
from bandgap.descriptors import config_for
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import to_dict
from bandgap.foundation.progress import Progress, no_progress
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.runs.explanation import save_labels
from bandgap.runs.known_structures import save_known
from bandgap.runs.requests import TransferRequest
from bandgap.runs.split_rows import formula_numbers
from bandgap.runs.stored import load_run
from bandgap.runs.transfer import transfer_run
from bandgap.sources.model import SourceCard
from bandgap.storage.manifests import MANIFEST
from bandgap.structures.near_copies import NearCopies
from bandgap.structures.reading import read_paths

METHOD: Final = "fresh_networks"
PRESETS: Final = {
    "pbe": "composition-neighbours-chgnet",
    "pbe-composition": "composition-neighbours",
}
LEAST_P_METAL: Final = 0.1  # of a metal to learn from, when it is left out
N_TEST: Final = 500
N_LABELS: Final = 300  # that explain predictions
# Distances of an atom by which structures are compared; 24 in other runs, six times the size.
N_NEAREST: Final = 4
LICENCE: Final = (
    "CC BY 4.0, Materials Project: A. Jain et al., APL Materials 1, 011002 (2013), "
    "doi:10.1063/1.4812323"
)
SENTENCES: Final = (
    "These are PBE gaps. PBE underestimates measured gaps, by about a third on average.",
    "With 50 labels of your own level of theory this becomes a model of that level: page Train, or "
    "bandgap transfer --source pbe. On measured gaps its RMSE was then 1.01 eV, that of these PBE "
    "gaps 1.29 eV (extra chgnet installed).",
)
DATA_SET: Final = "Materials Project, PBE gaps"
NOT_FOR: Final = "measured gaps, disordered crystals, surfaces, molecules"


def make_models(
    structures: Sequence[Path],
    out: Path,
    *,
    seed: int,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> list[Path]:
    """Train the models on extXYZ files with `gap_eV`, 0 for metals; return their folders."""
    records = read_paths(list(structures))
    gaps_eV = np.array([record.info["gap_eV"] for record in records], dtype=np.float64)
    data = LabelledSet(records, gaps_eV, level_of_theory="PBE", licence=LICENCE)
    data = _without_doubtful_metals(data, seed=seed, cache=cache, progress=progress)
    folders = []
    for name, preset in PRESETS.items():
        request = TransferRequest(
            method=METHOD, preset=preset, by_formula=True, n_test=N_TEST, seed=seed
        )
        folder = transfer_run(None, data, request, out=out / name, cache=cache, progress=progress)
        _describe(folder, data, cache=cache, n_doubtful=len(records) - len(data.records))
        folders.append(folder)
    return folders


def _without_doubtful_metals(
    data: LabelledSet, *, seed: int, cache: DescriptorCache | None, progress: Progress
) -> LabelledSet:
    """Return the set without metals that trees without their formula take for semiconductors."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import GroupKFold, cross_val_predict

    table = learnable(
        data.records,
        data.gaps_eV,
        descriptor=config_for(preset=PRESETS["pbe"]),
        of_source=False,
        cache=cache,
        progress=progress,
    )
    is_metal = table.gaps_eV <= ZERO_EV
    p_metal = cross_val_predict(
        HistGradientBoostingClassifier(max_features=0.15, random_state=seed),
        table.features,
        is_metal,
        groups=formula_numbers(table),
        cv=GroupKFold(5, shuffle=True, random_state=seed),
        method="predict_proba",
    )[:, 1]
    doubtful = {table.ids[row] for row in np.flatnonzero(is_metal & (p_metal < LEAST_P_METAL))}
    keep = np.array([record.id not in doubtful for record in data.records])
    records = [record for record, is_kept in zip(data.records, keep, strict=True) if is_kept]
    return replace(data, records=records, gaps_eV=data.gaps_eV[keep])


def _describe(
    folder: Path, data: LabelledSet, *, cache: DescriptorCache | None, n_doubtful: int
) -> None:
    """Store fewer distances of the structures, some labels, and the model's card."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    record_of = {record.id: record for record in data.records}
    split = manifest["split"]
    run_records = [record_of[id_] for id_ in (*split["train"], *split["test"])]
    save_known(folder, NearCopies(run_records, n_nearest=N_NEAREST), n_learned=len(split["train"]))
    metrics = manifest["metrics"]
    manifest["inputs"] = {"data_set": DATA_SET}
    label_of = {record.id: gap for record, gap in zip(data.records, data.gaps_eV, strict=True)}
    shown_ids = split["train"][:N_LABELS]
    descriptor = load_run(folder, verify=False).descriptor
    labelled = learnable(
        [record_of[id_] for id_ in shown_ids],
        np.array([label_of[id_] for id_ in shown_ids]),
        descriptor=descriptor,
        of_source=False,
        cache=cache,
    )
    save_labels(folder, labelled)
    manifest["about"] = {
        "title": "PBE model",
        "licence": LICENCE,
        "not_for": NOT_FOR,
        "n_doubtful_metals": n_doubtful,
        "rmse_eV": manifest["diagnostics"]["cv_rmse_eV"],
        "auc_metal": metrics["auc_metal"],
        "coverage_95": metrics["coverage_95"],
        "sentences": SENTENCES,
    }
    learned = [record_of[id_] for id_ in split["train"] if label_of[id_] > ZERO_EV]
    rmse_eV = manifest["diagnostics"]["cv_rmse_eV"]
    card = SourceCard(
        data=(DATA_SET,),
        n_structures=len(learned),
        elements=tuple(sorted(set().union(*map(elements_of, learned)))),
        level_of_theory="PBE",
        licence=LICENCE,
        validation_rmse_eV=rmse_eV,
        n_held_out=len(learned),
        held_out_rmse_eV=rmse_eV,
    )
    manifest["card"] = to_dict(card)
    path.write_text(json.dumps(manifest, separators=(",", ":")), encoding="utf-8")
