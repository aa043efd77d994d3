"""Structures that a shipped model cannot describe, predicted by the one that needs no potential."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from bandgap.datasets.demo_files import data_folder
from bandgap.datasets.shipped_models import about_model
from bandgap.descriptors.cache import DescriptorCache
from bandgap.predictions.table import DOMAIN_P, NUMBERS, P_METAL, Predictions
from bandgap.runs.stored import Run, load_run
from bandgap.structures import StructureRecord


def with_substitute(
    run: Run,
    records: Sequence[StructureRecord],
    predictions: Predictions,
    *,
    cache: DescriptorCache | None = None,
) -> Predictions:
    """Return predictions in which the substitute of a shipped model fills refused rows.

    They have a warning with its error. A run without a substitute is left as it is.
    """
    name = about_model(run.manifest).get("substitute", "")
    rows = [
        i
        for i, record in enumerate(records)
        if predictions.status[i] == "refused" and record.status != "refused"
    ]
    if not name or not rows:
        return predictions
    from bandgap.runs.prediction import predict_records

    other = _loaded(name)
    filled = predict_records(other, [records[i] for i in rows], cache=cache)
    rmse_eV = about_model(other.manifest)["rmse_eV"]
    sentence = f"predicted by {name}, with an RMSE of {rmse_eV:.2f} eV"
    values: dict[str, Any] = {
        field: _with_rows(getattr(predictions, field), rows, getattr(filled, field))
        for field in (*NUMBERS, P_METAL, DOMAIN_P)
    }
    texts = {field: list(getattr(predictions, field)) for field in ("status", "problem", "domain")}
    for i, (row, status) in enumerate(zip(rows, filled.status, strict=True)):
        if status == "refused":
            continue
        texts["status"][row] = "warning"
        reasons = (predictions.problem[row], sentence, filled.problem[i])
        texts["problem"][row] = "; ".join(filter(None, reasons))
        texts["domain"][row] = filled.domain[i]
    return replace(predictions, **values, **{field: tuple(text) for field, text in texts.items()})


@cache
def _loaded(name: str) -> Run:
    return load_run(data_folder() / "models" / name, verify=False)


def _with_rows(values: Any, rows: Sequence[int], filled: Any) -> Any:
    changed = np.array(values)
    changed[..., rows] = filled
    return changed
