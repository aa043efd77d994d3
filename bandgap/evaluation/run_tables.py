"""Comparison of runs: figures, settings, differences to a baseline.

The functions make data frames and sentences from manifests and stored predictions. Loads no torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bandgap.datasets.gaps import mixed_levels_warning
from bandgap.evaluation.heldout import HeldOut, figures_at
from bandgap.evaluation.paired import (
    PairedDifference,
    common_rows,
    paired_difference,
    sentence,
)
from bandgap.foundation.errors import InputError

FEWEST_RUNS = 2
NOT_THERE = "-"
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run in a comparison; `label` is its name in tables, plots and sentences.

    `data` is the name of its data set, `source` that of its source model.
    """

    id: str
    label: str
    manifest: Mapping[str, Any]
    heldout: HeldOut
    data: str = ""
    source: str = ""
    device: str = ""

    @property
    def data_fingerprint(self) -> str:
        """Fingerprint of the labelled structures that the run was made from."""
        return str(self.manifest.get("data", {}).get("fingerprint", ""))


# For each run its difference to the baseline, if it can be computed, and a sentence on it.
Differences = list[tuple[StoredRun, PairedDifference | None, str]]


def distinct_labels(titles: Sequence[str], details: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a distinct name for every object: its title, if needed with the details that differ.

    Objects with equal title and details get a number, in their order.

    Parameters
    ----------
    titles
        Title of each object.
    details
        Details of each object by name, as texts; the first ones that differ are used.

    >>> distinct_labels(["a", "b", "a"], [{"seed": "seed 0"}, {}, {"seed": "seed 1"}])
    ['a, seed 0', 'b', 'a, seed 1']
    >>> distinct_labels(["a", "a"], [{}, {}])
    ['a, number 1', 'a, number 2']
    """
    labels = list(titles)
    for name in dict.fromkeys(name for values in details for name in values):
        for rows in _rows_of_equal_labels(labels):
            texts = [details[row].get(name, "") for row in rows]
            if len(set(texts)) > 1:
                for row, text in zip(rows, texts, strict=True):
                    labels[row] += f", {text}" if text else ""
    for rows in _rows_of_equal_labels(labels):
        for number, row in enumerate(rows, start=1):
            labels[row] += f", number {number}"
    return labels


def _rows_of_equal_labels(labels: Sequence[str]) -> list[list[int]]:
    """Return the rows of each label that occurs more than once."""
    rows_of_label: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows_of_label.setdefault(label, []).append(row)
    return [rows for rows in rows_of_label.values() if len(rows) > 1]


def figures_table(runs: Sequence[StoredRun]) -> pd.DataFrame:
    """Return one row for each run: figures on its held-out structures, time, peak memory.

    Coverage and width are those of 95 % prediction intervals. The NLL is the one that the run
    computed from its draws. A figure that a run did not record is NaN.
    """
    rows = []
    for run in runs:
        figures = figures_at(run.heldout, LEVEL)
        peak = run.manifest.get("peak_memory_bytes", {}).get("process")
        rows.append(
            {
                "run": run.label,
                "rmse_eV": figures["rmse_eV"],
                "mae_eV": figures["mae_eV"],
                "r2": figures["r2"],
                "nll": _number(run.manifest.get("metrics", {}).get("nll")),
                "crps_eV": figures["crps_eV"],
                "coverage_95": figures["coverage"],
                "width_95_eV": figures["width_eV"],
                "miscalibration": figures["miscalibration"],
                "held_out": len(run.heldout),
                "time_s": _number(run.manifest.get("elapsed_s", {}).get("all")),
                "memory_MB": _number(peak) / 1e6,
            }
        )
    return pd.DataFrame(rows)


def differing_settings(runs: Sequence[StoredRun]) -> pd.DataFrame:
    """Return the settings that differ between runs, as text, with one row a setting and one column
    a run.

    A setting that only one method has is no difference between two methods.
    """
    settings_by_run = [dict(settings_of(run)) for run in runs]
    names = list(dict.fromkeys(name for settings in settings_by_run for name in settings))
    values = {
        name: [settings.get(name, NOT_THERE) for settings in settings_by_run] for name in names
    }
    differing = {name: row for name, row in values.items() if len(set(row) - {NOT_THERE}) > 1}
    columns = {run.label: [row[k] for row in differing.values()] for k, run in enumerate(runs)}
    return pd.DataFrame({"setting": pd.Series(list(differing), dtype="str")} | columns)


def settings_of(run: StoredRun) -> Iterator[tuple[str, str]]:
    """Yield name and value of every setting of a run as text."""
    manifest = run.manifest
    source = manifest.get("source", {})
    conformal = manifest.get("conformal") or {}
    yield "method", str(manifest.get("title", ""))
    yield "data set", run.data
    yield "content of the data", run.data_fingerprint
    yield "level of theory", str(manifest.get("level_of_theory", ""))
    yield "learned from", str(manifest.get("n", ""))
    yield "held out", str(len(manifest.get("split", {}).get("test", ())))
    yield "split by", "formula" if manifest["request"]["by_formula"] else "structure"
    yield "tested on", "elements of the source" if _tested_on_known(manifest) else "all elements"
    yield "electron levels", str(manifest["request"]["levels"])
    yield "held back for conformal intervals", str(len(conformal.get("ids", ())))
    yield "seed", str(manifest["request"]["seed"])
    yield "source model", run.source
    yield "networks of the source model", str(source.get("members", ""))
    yield "output of the source model", str(source.get("head", ""))
    yield "content of the source model", str(source.get("fingerprint", ""))
    yield "device", run.device
    yield from _flat(manifest.get("config", {}))
    yield from (
        (f"version of {name}", str(value)) for name, value in manifest.get("versions", {}).items()
    )


def split_flags(run: StoredRun, baseline: StoredRun) -> list[str]:
    """Return why two runs are not directly comparable: different data, labels or test sets."""
    flags = []
    if run.data_fingerprint != baseline.data_fingerprint:
        flags.append(_data_difference(run, baseline))
    levels = [str(r.manifest.get("level_of_theory", "")) for r in (run, baseline)]
    if warning := mixed_levels_warning(levels):
        flags.append(f"{run.label} and {baseline.label}: {warning}")
    common, _ = common_rows(run.heldout, baseline.heldout)
    n_common = common.size
    n_run = len(run.heldout)
    n_baseline = len(baseline.heldout)
    if n_common < max(n_run, n_baseline):
        flags.append(
            f"{run.label} and {baseline.label} were tested on different crystals ({n_run:,} and "
            f"{n_baseline:,}, {n_common:,} in common with the same gap): their columns do not "
            "compare; a difference is taken on those in common only."
        )
    return flags


def _data_difference(run: StoredRun, baseline: StoredRun) -> str:
    """Return a sentence on the different data of two runs."""
    if run.data != baseline.data:
        return f"{run.label} learned from {run.data}, {baseline.label} from {baseline.data}."
    counts = {r.label: _taken_and_left_out(r) for r in (run, baseline)}
    fewer, more = sorted(counts, key=lambda label: counts[label])
    if sum(counts[fewer]) == sum(counts[more]) and counts[fewer] != counts[more]:
        return (
            f"{fewer} left out {counts[fewer][1]:,} of {sum(counts[fewer]):,} labelled structures "
            f"of {run.data}, {more} {counts[more][1] or 'none'}: not every method takes elements "
            "that the source model lacks."
        )
    return (
        f"The data set {run.data} got other structures or gaps between {run.label} and "
        f"{baseline.label}."
    )


def differences(runs: Sequence[StoredRun], baseline: StoredRun) -> Differences:
    """Return every other run with its paired difference to the baseline, or None, and a sentence on
    it.
    """
    results: Differences = []
    for run in runs:
        if run.id == baseline.id:
            continue
        try:
            difference = paired_difference(run.heldout, baseline.heldout)
        except InputError as error:
            results.append((run, None, f"no difference can be taken. {error}"))
        else:
            results.append((run, difference, sentence(difference, baseline=baseline.label) + "."))
    return results


def difference_table(results: Differences) -> pd.DataFrame:
    """Return differences as a data frame: run, difference and ends of its interval in eV, common
    structures.
    """
    return pd.DataFrame(
        {
            "run": [run.label for run, _, _ in results],
            "difference_eV": [np.nan if d is None else d.difference_eV for _, d, _ in results],
            "lower_eV": [np.nan if d is None else d.lower_eV for _, d, _ in results],
            "upper_eV": [np.nan if d is None else d.upper_eV for _, d, _ in results],
            "structures": [0 if d is None else d.n for _, d, _ in results],
        }
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _tested_on_known(manifest: Mapping[str, Any]) -> bool:
    """Return whether the test set is limited to elements of the source, by request or by left-out
    structures.
    """
    lacking = any(structure.get("elements") for structure in manifest.get("left_out") or ())
    return bool(manifest["request"]["test_known"]) or lacking


def _taken_and_left_out(run: StoredRun) -> tuple[int, int]:
    """Return how many labelled structures a run used, and how many it left out."""
    return int(run.manifest.get("data", {}).get("n_labelled", 0)), len(
        run.manifest.get("left_out") or ()
    )


def _number(value: Any) -> float:
    """Return a number from a manifest, NaN where it is missing."""
    return float(value) if isinstance(value, (int, float)) else float("nan")
