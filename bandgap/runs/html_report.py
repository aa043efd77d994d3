"""The report of a run: one HTML page that a supervisor reads in a minute.

The file needs no network and no other file: the library of the figures is inside. It says nothing
that is not in the folder of the run or in its context. Its template escapes every text, and its
policy lets a browser run and load nothing but what the template contains, as the run may be a
stranger's.
"""

import base64
import json
import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs
from safetensors.numpy import load_file

from bandgap import plots
from bandgap.evaluation.calibrators import load_calibrator, variance_calibrated
from bandgap.evaluation.heldout import HeldOut, load_heldout, refit_sentence, tested_ids
from bandgap.evaluation.learning_curve import load_curve
from bandgap.evaluation.metal_tables import THRESHOLD, p_metal_table
from bandgap.evaluation.paired import common_rows, interval_text
from bandgap.evaluation.reliability import coverage_of, coverage_table
from bandgap.evaluation.result_verdict import result_verdict
from bandgap.evaluation.run_tables import LEVEL, StoredRun, differences, figures_table
from bandgap.foundation.arguments import as_folder
from bandgap.foundation.errors import BandgapError
from bandgap.plots.thumbnails import thumbnail
from bandgap.predictions.store import QUANTILES, load_predictions
from bandgap.predictions.table import Predictions
from bandgap.runs.methods_text import cited_works, methods_text
from bandgap.sources.cards import copies_of_run_sentence, left_out_sentence
from bandgap.storage.manifests import (
    LEARNING_CURVE,
    RECORD,
    SUMMARIES,
    damage_reported,
    read_manifest,
)
from bandgap.structures.shapes import load_shape

MOST_PREDICTED = 50  # rows of the table of predictions
_HEIGHT = 270  # pixels of a figure
_TEMPLATE = jinja2.Environment(
    loader=jinja2.PackageLoader("bandgap.runs"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("report.html")

Rows = list[dict[str, str]]


@dataclass(frozen=True, eq=False)
class ReportContext:
    """What a report says that is not in the folder of the run.

    Attributes
    ----------
    title, data, parent
        Names of the run, of its data set and of the run that it refits.
    command
        Repeats the run.
    learned
        What the run learned, in one sentence.
    gaps_eV
        Known gaps of the data set; by default those of the held-out structures.
    other_runs
        Folders of other runs by name. Those that held out the same structures are compared.
    prediction, shapes
        Folder of a prediction of new structures, and the file of their shapes for the pictures.
    """

    title: str = ""
    data: str = ""
    parent: str = ""
    command: str = ""
    learned: str = ""
    gaps_eV: NDArray[np.float64] | None = None
    other_runs: Mapping[str, Path] = field(default_factory=dict)
    prediction: Path | None = None
    shapes: Path | None = None


def write_report(run: Path | str, out: Path | str, *, context: ReportContext | None = None) -> Path:
    """Write the report of a run to an HTML file, or to a PDF by an installed browser.

    Parameters
    ----------
    run
        Folder of the run.
    out
        File to write, a PDF where it ends in .pdf; it is replaced.
    context
        Names and command for the report. Default: those that are stored with the run.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ArtifactError
        When the folder is not a readable run.
    InputError
        For a PDF where no browser is installed.
    """
    folder = as_folder(run, name="run")
    file = Path(out)
    page = report_html(folder, context or ReportContext())
    if file.suffix.lower() == ".pdf":
        from bandgap.runs.pdf_report import write_pdf

        write_pdf(page, file)
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
    return file


def report_html(folder: Path, context: ReportContext) -> str:
    """Return the report of a run as HTML."""
    manifest = read_manifest(folder, kind="run")
    calibrator = load_calibrator(folder)
    curve = load_curve(folder / LEARNING_CURVE)
    figures: dict[str, go.Figure] = {}
    values: dict[str, Any] = {
        "title": context.title or manifest["title"],
        "context": context,
        "question": _question(manifest, context),
        "created": manifest["created"],
        "versions": {
            **manifest.get("versions", {}),
            "source model": str(manifest.get("source", {}).get("fingerprint", "none")),
        },
        "held_out": tested_ids(manifest),
        "notes": [
            str(text).replace("`", "")  # Markdown of the page
            for text in (
                left_out_sentence(manifest),
                copies_of_run_sentence(manifest),
                *manifest.get("warnings", ()),
            )
        ],
        "refit": refit_sentence(manifest, parent=context.parent or str(manifest["refit"]["parent"]))
        if "refit" in manifest
        else "",
        "methods": methods_text(manifest, calibrator=calibrator),
        "cited_works": cited_works(manifest),
        "settings": json.dumps({"request": manifest["request"], "method": manifest["config"]}),
        "compared": [],
        "predicted": [],
    }
    gaps_eV = context.gaps_eV
    if values["held_out"]:
        heldout = load_heldout(folder, manifest)
        gaps_eV = heldout.gaps_eV if gaps_eV is None else gaps_eV
        values["verdict"] = result_verdict(
            heldout, manifest, calibrated=variance_calibrated(heldout, calibrator)
        )
        values["compared"] = _compared(heldout, manifest, values["title"], context.other_runs)
        figures |= _test_figures(heldout)
    if gaps_eV is not None and gaps_eV.size:
        figures = {f"The {gaps_eV.size:,} known gaps.": plots.gap_histogram(gaps_eV)} | figures
    figures |= _layers(folder)
    if curve is not None:
        figures[curve.sentence()] = plots.error_by_labels_figure(curve.table(), n=curve.n)
    for figure in figures.values():
        figure.update_layout(height=_HEIGHT)
    if context.prediction is not None:
        predictions = load_predictions(context.prediction / QUANTILES)
        if calibrator is not None:
            predictions = calibrator.apply(predictions)
        values["n_predicted"] = len(predictions)
        values["predicted"] = list(_predicted(predictions, context.shapes))
    values["figures"] = figures
    return _TEMPLATE.render(values, nonce=secrets.token_urlsafe(), plotly=get_plotlyjs())


def _question(manifest: Mapping[str, Any], context: ReportContext) -> str:
    data = context.data or (manifest.get("inputs") or {}).get("data_set") or "these structures"
    level = manifest.get("level_of_theory") or "level of theory not recorded"
    known_gaps = f"{manifest['n']:,} of {manifest['data']['n_labelled']:,} known gaps ({level})"
    if not tested_ids(manifest):
        return f"Learned from {known_gaps}."
    return f"How well does {manifest['title']} predict the band gaps of {data} from {known_gaps}?"


def _test_figures(heldout: HeldOut) -> dict[str, go.Figure]:
    """Return the figures of the test by their captions."""
    predictions = heldout.predictions
    lower, upper = predictions.interval(LEVEL)
    figures = {
        "Predicted against known gaps, with 95 % prediction intervals.": plots.parity(
            heldout.gaps_eV, predictions.mean_eV, lower, upper, ids=list(predictions.ids)
        ),
        "Calibration: below the diagonal intervals are too narrow; inside the band it may be "
        "chance.": plots.coverage_figure(
            coverage_table(coverage_of(heldout, "prediction")), level=LEVEL
        ),
    }
    if predictions.p_metal is not None:
        caption = "Share of metals against their predicted probability. Grey bars are chance."
        figures[caption] = plots.p_metal_figure(p_metal_table(heldout))
    return figures


def _layers(folder: Path) -> dict[str, go.Figure]:
    """Return the posterior of the layer weights by its caption; empty for runs without them."""
    files = [folder / name for name in (SUMMARIES, RECORD)]
    with damage_reported(folder):
        arrays = {k: v for file in files if file.is_file() for k, v in load_file(file).items()}
    if "c" not in arrays:
        return {}
    flat = {
        name: np.asarray(arrays[name], np.float64).reshape(-1, arrays[name].shape[-1])
        for name in ("c", "prior.c")
        if name in arrays
    }
    names = plots.layer_names(flat["c"].shape[-1])
    figure = plots.layer_weights(flat["c"], layers=names, prior_draws=flat.get("prior.c"))
    return {"Freedom of each layer to move. Filled: after learning; dashed: before.": figure}


def _compared(
    heldout: HeldOut, manifest: Mapping[str, Any], title: str, other_runs: Mapping[str, Path]
) -> Rows:
    """Return the rows of the comparison with runs that held out the same structures."""
    this_run = StoredRun("", title, manifest, heldout)
    runs = [this_run]
    for name, folder in other_runs.items():
        try:
            other_manifest = read_manifest(folder, kind="run")
            other = load_heldout(folder, other_manifest)
        except BandgapError:  # damaged, or without a test; the page Compare says so
            continue
        common, _ = common_rows(heldout, other)
        if len(common) == len(heldout) == len(other):
            runs.append(StoredRun(name, name, other_manifest, other))
    texts = {run.id: interval_text(d) for run, d, _ in differences(runs, this_run) if d}
    rows = [
        {
            "run": run.label,
            "RMSE (eV)": f"{figures['rmse_eV']:.2f}",
            "in 95 % intervals": f"{100 * figures['coverage_95']:.0f} %",
        }
        | ({"difference to this run (eV)": texts.get(run.id, "")} if texts else {})
        for run, figures in zip(runs, figures_table(runs).to_dict("records"), strict=True)
    ]
    mean_gap_eV = (manifest.get("tested") or {}).get("mean_gap_rmse_eV")
    if mean_gap_eV is not None:
        mean_gap = {"run": "the mean gap for every structure", "RMSE (eV)": f"{mean_gap_eV:.2f}"}
        rows.append(dict.fromkeys(rows[0], "") | mean_gap)
    return rows


def _predicted(predictions: Predictions, shapes: Path | None) -> Iterator[dict[str, str]]:
    """Yield the rows of the table of predictions, each with the address of its picture."""
    lower, upper = predictions.interval(LEVEL)
    for row in range(min(len(predictions), MOST_PREDICTED)):
        mean = float(predictions.mean_eV[row])
        is_metal = predictions.p_metal is not None and predictions.p_metal[row] >= THRESHOLD
        yield {
            "picture": _picture(shapes, row),
            "structure": predictions.ids[row],
            "formula": predictions.formulas[row],
            "gap (eV)": "metal" if is_metal else "" if math.isnan(mean) else f"{mean:.2f}",
            "95 % interval (eV)": ""
            if is_metal or math.isnan(mean)
            else f"{lower[row]:.2f} to {upper[row]:.2f}",
            "note": predictions.warning(row),
        }


def _picture(shapes: Path | None, row: int) -> str:
    """Return the picture of a structure as the address of an image, "" where there is none."""
    try:
        shape = None if shapes is None else load_shape(shapes, row)
    except BandgapError:
        shape = None
    if shape is None:
        return ""
    return f"data:image/svg+xml;base64,{base64.b64encode(thumbnail(shape).encode()).decode()}"
