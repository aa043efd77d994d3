"""Explain predictions of a run: labels behind them, noise and model, and elements.

The labels of a run are not stored with it. So its labelled structures are read again and checked
against the run; their descriptors are mostly in the cache. A shipped model stores some of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.datasets.table import (
    LabelledSet,
    Table,
    elements_of,
    learnable_without_features,
    with_baseline_column,
)
from bandgap.descriptors import (
    DescriptorConfig,
    feature_blocks,
    featurize,
    similarity_features,
)
from bandgap.descriptors.block_settings import OwnColumns
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.user_features import own_columns
from bandgap.foundation.arguments import as_numbers
from bandgap.foundation.config import to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.posterior.label_influence import (
    LABELS_PER_BLOCK,
    LabelInfluence,
    has_few_draws,
    label_influence,
)
from bandgap.predictions.explanations import Explanation, Explanations, LabelEffect, largest
from bandgap.runs.prediction import check_baseline, describe_new, draw_requests
from bandgap.runs.stored import Run, load_run
from bandgap.storage.manifests import LABELS, posterior_of_method
from bandgap.storage.stored_fields import load_fields, save_fields
from bandgap.structures import StructureRecord, as_records
from bandgap.structures.elements import ELEMENTS

Floats = NDArray[np.float64]

N_LABELS: Final = 5
N_FEATURES: Final = 8
MAX_STRUCTURES: Final = 500  # in one call; all weights of all labels are in memory
# Draws of their output layer are weighted bootstraps, not of a posterior with normal noise.
_BOOTSTRAPPED: Final = ("nptl", "nptl_head", "nptl_soup")


@dataclass(frozen=True, eq=False)
class StoredLabels:
    """Ids, gaps and model inputs of labelled structures, which explain the predictions of a run."""

    ids: tuple[str, ...]
    gaps_eV: Floats  # (n,)
    inputs: NDArray[np.float32]  # (n, p)


def save_labels(folder: Path, labels: Table) -> None:
    """Store labelled structures of a run in its folder, so that it explains without them."""
    inputs = np.asarray(labels.inputs, dtype=np.float32)
    save_fields(StoredLabels(tuple(labels.ids), labels.gaps_eV, inputs), folder / LABELS)


def stored_labels(folder: Path) -> StoredLabels | None:
    """Return the labelled structures in the folder of a run, None for a run without them."""
    path = folder / LABELS
    return load_fields(StoredLabels, path) if path.is_file() else None


@checked_keywords()
def explain_predictions(
    model_folder: Path | str,
    data: LabelledSet | None,
    structures: object,
    *,
    n_labels: int = N_LABELS,
    baseline_eV: ArrayLike | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Explanations:
    """Explain predictions of a stored run.

    Parameters
    ----------
    model_folder
        Folder of the run.
    data
        The labelled structures that it was made from; None for a shipped model.
    structures
        Structures to explain, as for `predict_run`, at most 500. Refused ones are left out.
    n_labels
        Number of labelled structures of each explanation.
    baseline_eV
        Baseline (n,) in eV of the structures, for a run with one.
    cache
        Cache of descriptors on disk.
    progress
        Called with every step; may raise `Cancelled`.

    Returns
    -------
    Explanations
        For each structure the labels with the largest weights (the nearest ones, where the method
        has no weights), the standard deviations of noise and model, and the changes of the
        prediction when the features of an element are replaced by their mean.

    Raises
    ------
    ArtifactError
        When the folder contains no run, or a damaged one.
    InputError
        When the labelled structures are not those of the run, for more than 500 structures, and
        when a baseline is missing.
    """
    run = load_run(model_folder)
    records = as_records(structures)
    if len(records) > MAX_STRUCTURES or n_labels < 1:
        raise InputError(
            f"explanation: {len(records):,} structures, {n_labels=}. Accepted: at most "
            f"{MAX_STRUCTURES:,} structures, and n_labels from 1."
        )
    baseline = None if baseline_eV is None else as_numbers(baseline_eV, name="baseline_eV")
    check_baseline(run, len(records), baseline)
    training = (
        stored_labels(run.folder)
        if data is None
        else training_table(run, data, cache=cache, progress=progress)
    )
    if training is None:
        raise InputError(
            "explanation: this run needs the labelled structures that it was made from."
        )
    return explain_records(
        run,
        training,
        records,
        n_labels=n_labels,
        baseline_eV=baseline,
        cache=cache,
        progress=progress,
    )


def training_table(
    run: Run,
    data: LabelledSet,
    *,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Table:
    """Return the structures that a run learned from, in their order, with features and gaps.

    Raises InputError unless the labelled structures are those of the run.
    """
    baseline = None if data.baseline_eV is None else np.asarray(data.baseline_eV, dtype=float)
    if bool(run.baseline) != (baseline is not None):
        raise InputError(
            f"explanation: the run has the baseline {run.baseline or 'none'!r}, the labelled "
            f"structures {'have one' if baseline is not None else 'have none'}. Give those of the "
            "run."
        )
    table = learnable_without_features(
        data.records,
        np.asarray(data.gaps_eV, dtype=float),
        descriptor=replace(run.descriptor, levels="none"),
        baseline_eV=baseline,
    )
    if table.content() != run.manifest["data"]["fingerprint"]:
        stored = run.manifest["data"]["n_labelled"]
        raise InputError(
            f"explanation: the labelled structures are not those of the run ({stored:,} then, "
            f"{len(table):,} now, or other gaps or ids). Give the same files and gaps."
        )
    user_features = run.descriptor.user_features
    check_same_own(
        None if user_features is None else to_dict(user_features), own_columns(table.records)
    )
    row_of_id = {id_: row for row, id_ in enumerate(table.ids)}
    rows = np.array([row_of_id[id_] for id_ in run.manifest["split"]["train"]], dtype=np.int64)
    learned = table.rows(rows)
    described = featurize(learned.records, run.descriptor, cache=cache, progress=progress)
    return replace(learned, features=described.features)


def check_same_own(then: Mapping[str, Any] | None, now: OwnColumns | None) -> None:
    """Raise InputError unless the labelled structures have the own features of a run (or none)."""
    if (then or {}).get("sha256") != (None if now is None else now.sha256):
        file = (then or {}).get("file", "none")
        raise InputError(
            f"The own features of the labelled structures are not those of the run ({file} then, "
            f"{'none' if now is None else now.file} now, or other values). Give the same table, "
            "--features FILE."
        )


def explain_records(
    run: Run,
    training: Table | StoredLabels,
    records: Sequence[StructureRecord],
    *,
    rows: Sequence[int] | None = None,
    n_labels: int = N_LABELS,
    baseline_eV: Floats | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Explanations:
    """Return the explanations of records by a loaded run and its training structures.

    `rows` are the rows of the records in the input, by default from 0.
    """
    described = describe_new(run, records, cache=cache, progress=progress)
    progress(Update("explaining", 0, len(records)))
    (drawn,) = draw_requests(run, [(records, described, baseline_eV)])
    usable = drawn.usable
    inputs = with_baseline_column(described.features, baseline_eV)[usable]
    labels = training.inputs
    influence = None
    way = ""
    if drawn.draws.p_metal is None and _has_weights(run):
        way = "few draws" if has_few_draws(run.posterior) else ""
        influence = label_influence(
            run.posterior,
            inputs,
            training=labels,
            gaps_eV=training.gaps_eV,
            excluded=_BOOTSTRAPPED,
        )
    distances = _distances(inputs, labels, run.descriptor)
    # not from the components, whose sd contains that of the mean in Gaussian processes
    noise = float(np.sqrt(np.mean(run.posterior.summaries()["sigma_eV"] ** 2)))
    means = drawn.draws.flat_means_eV
    typical = float(np.median(_model_sds(run, labels)))
    numbers = range(len(records)) if rows is None else rows
    explained = []
    for k, i in enumerate(usable.tolist()):
        progress(Update("explaining", k, usable.size))
        explained.append(
            Explanation(
                row=int(numbers[i]),
                id=records[i].id,
                mean_eV=float(means[:, k].mean()),
                noise_sd_eV=noise,
                model_sd_eV=float(means[:, k].std()),
                percentile=float(drawn.judgements[i].percentile),
                labels=_labels(training, influence, distances, k, n=n_labels),
                features=_feature_changes(run, records[i], inputs[k], labels),
            )
        )
    progress(Update("explaining", usable.size, usable.size))
    return Explanations(
        way=way if influence is None else influence.way,
        share=0.0 if influence is None else influence.share,
        typical_sd_eV=typical,
        rows=tuple(explained),
    )


def _model_sds(run: Run, inputs: NDArray[Any]) -> Floats:
    """Return the standard deviations (n,) of the mean in eV; blocks bound the memory."""
    blocks = [inputs[k : k + LABELS_PER_BLOCK] for k in range(0, len(inputs), LABELS_PER_BLOCK)]
    return np.concatenate([run.posterior.mean_draws_eV(b).std(axis=(0, 1)) for b in blocks])


def _has_weights(run: Run) -> bool:
    """Return whether the method's draws, if any, are from a posterior with normal noise."""
    is_pool = bool(posterior_of_method(run.manifest).get("kind") == "pool")
    return is_pool or str(run.manifest["method"]) not in _BOOTSTRAPPED


def _distances(inputs: NDArray[Any], labels: NDArray[Any], descriptor: DescriptorConfig) -> Floats:
    """Return 1 - cosine (m, n) between the similarity features of inputs and labels."""
    parts = []
    for features in (inputs, labels):
        without_baseline = features[:, : _n_features(descriptor)]
        similar = similarity_features(without_baseline, descriptor).astype(np.float64)
        length = np.linalg.norm(similar, axis=1, keepdims=True)
        parts.append(similar / np.where(length == 0.0, 1.0, length))
    result: Floats = np.clip(1.0 - parts[0] @ parts[1].T, 0.0, 2.0)
    return result


def _n_features(descriptor: DescriptorConfig) -> int:
    return int(feature_blocks(descriptor)[-1][1].stop)


def _labels(
    training: Table | StoredLabels,
    influence: LabelInfluence | None,
    distances: Floats,
    k: int,
    *,
    n: int,
) -> tuple[LabelEffect, ...]:
    """Return the labels with the largest weights on prediction k, or the nearest ones."""
    order = distances[k] if influence is None else -np.abs(influence.weights[k])
    return tuple(
        LabelEffect(
            training.ids[i],
            float(training.gaps_eV[i]),
            float(distances[k, i]),
            None if influence is None else float(influence.weights[k, i]),
            None if influence is None else float(influence.changes_eV[k, i]),
            None if influence is None else float(influence.errors_eV[k, i]),
        )
        for i in np.argsort(order, kind="stable")[:n].tolist()
    )


def _feature_changes(
    run: Run, record: StructureRecord, inputs: NDArray[Any], labels: NDArray[Any]
) -> tuple[tuple[str, float], ...]:
    """Return prediction minus the one with the features of a group at their training mean.

    Groups are the features of each element of the structure in the many-body terms, and each other
    block of the descriptor.
    """
    groups = feature_groups(run.descriptor, sorted(elements_of(record)))
    if not groups:
        return ()
    mean = labels.mean(axis=0)
    varied = np.repeat(inputs[None], len(groups) + 1, axis=0)
    for row, columns in enumerate(groups.values()):
        varied[row, columns] = mean[columns]
    predicted = run.posterior.mean_draws_eV(varied).mean(axis=(0, 1))
    return largest(list(groups), (predicted[-1] - predicted[:-1]).tolist())[:N_FEATURES]


def feature_groups(
    descriptor: DescriptorConfig, elements: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """Return the columns of the features of each element, and of each block that is of none."""
    columns: dict[str, list[NDArray[np.int64]]] = {}
    for name, block in feature_blocks(descriptor):
        parts = set(name.split("-"))
        is_of_elements = parts <= set(ELEMENTS)
        for group in parts & set(elements) if is_of_elements else {name}:
            columns.setdefault(group, []).append(np.arange(block.start, block.stop))
    return {name: np.concatenate(parts) for name, parts in columns.items()}
