"""The shipped models of PBE gaps, from crystals of the Materials Project.

The gaps of non-metals are those of the Materials Project. That a crystal is a metal is inferred
from its absence in the table of gaps, which is wrong for some; metals that boosted trees take for
semiconductors, when they are left out, are not learned from.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bandgap.datasets.table import LabelledSet, elements_of, learnable
from bandgap.descriptors import config_for
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import to_dict
from bandgap.foundation.progress import Progress, no_progress
from bandgap.posterior.metals import MetalsPosterior
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
from data.making.pbe_errors import Judged, error_rows, joined, judge, left_out

METHOD: Final = "fresh_networks"
# Trees lower the error where there is no potential; with CHGNet more folds lower it more.
RECIPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "pbe": {"preset": "composition-neighbours-chgnet", "settings": {"folds": 10}},
    "pbe-composition": {"preset": "composition-neighbours", "settings": {"trees_share": 0.6}},
}
SUBSTITUTES: Final = {"pbe": "pbe-composition"}
LEAST_P_METAL: Final = 0.1  # of a metal to learn from, when it is left out
N_LABELS: Final = 200  # that explain predictions
# Distances of an atom by which structures are compared; 24 in other runs, six times the size.
N_NEAREST: Final = 4
LICENCE: Final = (
    "CC BY 4.0, Materials Project: A. Jain et al., APL Materials 1, 011002 (2013), "
    "doi:10.1063/1.4812323"
)
SENTENCES: Final = (
    "These are PBE gaps. PBE underestimates measured gaps, by about a third on average.",
    "With 50 labels of your own level of theory this becomes a model of that level: page Train, or "
    "bandgap transfer --source pbe. On measured gaps its RMSE was then 1.02 eV, that of these PBE "
    "gaps 1.29 eV (with CHGNet).",
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
    data, n_doubtful = _labelled(structures, seed=seed, cache=cache, progress=progress)
    folders = []
    for name in RECIPES:
        request = _request(name, seed=seed)
        folder = transfer_run(None, data, request, out=out / name, cache=cache, progress=progress)
        _describe(folder, data, cache=cache, n_doubtful=n_doubtful)
        folders.append(folder)
    return folders


def judge_models(
    structures: Sequence[Path],
    *,
    seed: int,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Iterator[dict[str, Any]]:
    """Yield errors of the recipe of each model, and of its peers, on splits by formula."""
    data, _ = _labelled(structures, seed=seed, cache=cache, progress=progress)
    for name in RECIPES:
        parts: dict[str, list[Judged]] = defaultdict(list)
        request = _request(name, seed=seed)
        for split, sides in enumerate(judge(data, request, cache=cache, progress=progress)):
            for side, judged in sides.items():
                parts[side].append(judged)
                yield {"model": name, "side": side, "split": str(split), **error_rows(judged)[0]}
        for side, of_splits in parts.items():
            for row in error_rows(joined(of_splits)):
                yield {"model": name, "side": side, "split": "all", **row}


def _request(name: str, *, seed: int) -> TransferRequest:
    return TransferRequest(method=METHOD, by_formula=True, n_test=0, seed=seed, **RECIPES[name])


def _labelled(
    structures: Sequence[Path], *, seed: int, cache: DescriptorCache | None, progress: Progress
) -> tuple[LabelledSet, int]:
    """Return the set to learn from, and the number of doubtful metals that were left out."""
    records = read_paths(list(structures))
    gaps_eV = np.array([record.info["gap_eV"] for record in records], dtype=np.float64)
    data = LabelledSet(records, gaps_eV, level_of_theory="PBE", licence=LICENCE)
    cleaned = _without_doubtful_metals(data, seed=seed, cache=cache, progress=progress)
    return cleaned, len(data.records) - len(cleaned.records)


def _without_doubtful_metals(
    data: LabelledSet, *, seed: int, cache: DescriptorCache | None, progress: Progress
) -> LabelledSet:
    """Return the set without metals that trees without their formula take for semiconductors."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import GroupKFold, cross_val_predict

    table = learnable(
        data.records,
        data.gaps_eV,
        descriptor=config_for(preset=RECIPES["pbe"]["preset"]),
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
    gap_of = {record.id: gap for record, gap in zip(data.records, data.gaps_eV, strict=True)}
    ids = manifest["split"]["train"]
    run = load_run(folder, verify=False)
    table = learnable(
        [record_of[id_] for id_ in ids],
        np.array([gap_of[id_] for id_ in ids]),
        descriptor=run.descriptor,
        of_source=False,
        cache=cache,
    )
    save_known(folder, NearCopies(table.records, n_nearest=N_NEAREST), n_learned=len(table))
    save_labels(folder, table.rows(np.arange(N_LABELS)))
    assert isinstance(run.posterior, MetalsPosterior)
    errors = error_rows(left_out(run.posterior, table))
    manifest["inputs"] = {"data_set": DATA_SET}
    manifest["about"] = {
        "title": "PBE model",
        "licence": LICENCE,
        "not_for": NOT_FOR,
        "n_doubtful_metals": n_doubtful,
        "rmse_eV": errors[0]["rmse_eV"],
        "errors": errors,
        # Predicts what this model cannot describe, and all where the potential is not installed.
        "substitute": SUBSTITUTES.get(folder.name, ""),
        "sentences": SENTENCES,
    }
    learned = [record_of[id_] for id_ in ids if gap_of[id_] > ZERO_EV]
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
