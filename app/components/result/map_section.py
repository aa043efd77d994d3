"""The map of the data set of a run on the page Result."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from app.components.result.run_result import RunResult
from app.components.result.worst_view import ERROR_COLUMNS
from app.components.shared import stores, tables, words
from app.components.shared.guide_links import help_link
from app.components.shared.map_view import MapPoints, map_view, points_of, selected_members
from bandgap.evaluation.heldout import tested_ids
from bandgap.evaluation.metal_tables import THRESHOLD
from bandgap.jobs.listing import rows_of_ids

COLUMNS = ERROR_COLUMNS | {"set": tables.column("set", 90)}


def map_switch(result: RunResult) -> bool:
    """Draw the switch of the map if the data set is still stored; return whether it is on."""
    datasets = {stored.id for stored in stores.library().datasets(result.run.workspace)}
    return result.run.dataset in datasets and st.toggle(
        "Map",
        key=f"show-map-{result.run.id}",
        help="The structures as points on a map: click one to see it, draw round some to list "
        "them." + help_link("explanation/reading-a-result", "The map"),
    )


def map_section(result: RunResult) -> None:
    """Draw the map, and the structures that are selected on it."""
    dataset = result.run.dataset
    points = result_points(result)
    manifest = result.files.manifest
    selection = map_view(
        points, run=result.run, dataset=dataset, manifest=manifest, key=f"result-{result.run.id}"
    )
    members = selected_members(
        points,
        selection,
        dataset=dataset,
        manifest=manifest,
        columns=COLUMNS,
        table_of=selected_frame,
        lines_of=partial(_lines, result, points),
    )
    if members is None:
        return
    errors = points.errors_eV[members]
    errors = errors[np.isfinite(errors)]
    if errors.size:
        rmse = float(np.sqrt(np.mean(errors**2)))
        st.caption(
            f"{words.count(members.size, 'structure')} selected; RMSE {rmse:.2f} eV on the "
            f"{errors.size:,} held out among them."
        )


def result_points(result: RunResult) -> MapPoints:
    """Return the labelled structures of a run's data set with the set that they belong to."""
    library = stores.library()
    manifest = result.files.manifest
    predictions = result.heldout.predictions
    sets: dict[int, str] = {}
    test_rows: Mapping[str, int] = rows_of_ids(library, result.run.dataset, predictions.ids)
    train = list(manifest.get("split", {}).get("train", ()))
    tested = set(tested_ids(manifest))
    train_rows = rows_of_ids(library, result.run.dataset, [i for i in train if i not in tested])
    sets |= dict.fromkeys(train_rows.values(), "learned from")
    sets |= dict.fromkeys(test_rows.values(), "held out")
    means = np.asarray(predictions.mean_eV, dtype=np.float64).tolist()
    predicted = {
        test_rows[id_]: mean
        for id_, mean in zip(predictions.ids, means, strict=True)
        if id_ in test_rows
    }
    points = points_of(result.run.dataset, predicted, sets)
    # those of the test, as the gaps of the data set may have changed since then
    tested_gaps = {
        test_rows[id_]: gap
        for id_, gap in zip(predictions.ids, result.heldout.gaps_eV.tolist(), strict=True)
        if id_ in test_rows
    }
    structures = points.structures
    pairs = zip(structures.rows.tolist(), structures.gaps_eV.tolist(), strict=True)
    gaps_eV = np.array([tested_gaps.get(row, gap) for row, gap in pairs], dtype=np.float64)
    return replace(points, structures=replace(structures, gaps_eV=gaps_eV))


def selected_frame(points: MapPoints, members: np.ndarray) -> pd.DataFrame:
    """Return selected points as a table, the largest error first; the index has their rows."""
    structures = points.structures
    table = pd.DataFrame(
        {
            "id": [structures.ids[k] for k in members],
            "gap_eV": structures.gaps_eV[members],
            "mean_eV": points.predicted_eV[members],
            "error_eV": points.errors_eV[members],
            "set": [points.sets[k] for k in members],
            "formula": [structures.formulas[k] for k in members],
        },
        index=structures.rows[members],
    )
    order = table["error_eV"].abs().sort_values(ascending=False, na_position="last").index
    return table.loc[order]


def _lines(result: RunResult, points: MapPoints, k: int) -> list[str]:
    """Return known and predicted gap of a point, and its set."""
    lines = [f"Known gap: {points.structures.gaps_eV[k]:.2f} eV", f"Set: {points.sets[k]}"]
    if np.isfinite(points.predicted_eV[k]):
        lines.insert(1, f"Predicted: {_predicted_text(result, points.structures.ids[k])}")
    return lines


def _predicted_text(result: RunResult, id_: str) -> str:
    """Return the predicted gap of a held-out structure with its 95 % interval."""
    predictions = result.heldout.predictions
    position = predictions.ids.index(id_)
    lower, upper = (float(end[position]) for end in predictions.interval(0.95))
    mean = float(np.asarray(predictions.mean_eV)[position])
    p_metal = 0.0 if predictions.p_metal is None else float(predictions.p_metal[position])
    if p_metal >= THRESHOLD:
        return words.interval(lower, upper, p_metal)
    return f"{mean:.2f} eV ({words.interval(lower, upper)}, 95 % interval)"
