"""The report of a run: one HTML file with data, split, error, figures, settings and methods text.

The file needs no network and no other file: the library of the figures is inside. It says nothing
that is not in the folder of the run. Its template escapes every text, and its policy lets a browser
run and load nothing but what the template contains, as the run may be a stranger's.
"""

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from bandgap import plots
from bandgap.evaluation.calibrators import Calibrator, load_calibrator
from bandgap.evaluation.figure_labels import label
from bandgap.evaluation.heldout import HeldOut, load_heldout, refit_sentence, tested_ids
from bandgap.evaluation.learning_curve import LearningCurve, load_curve
from bandgap.evaluation.metal_tables import confusion_table, p_metal_table
from bandgap.evaluation.reliability import coverage_of, coverage_table
from bandgap.evaluation.result_verdict import result_verdict
from bandgap.evaluation.signed_errors import error_by_element, error_by_gap
from bandgap.foundation import citations
from bandgap.foundation.arguments import as_folder
from bandgap.runs.methods_text import methods_text
from bandgap.sources.cards import card_rows, copies_of_run_sentence, left_out_sentence
from bandgap.storage.manifests import LEARNING_CURVE, posterior_kinds, read_manifest

WORST = 10  # structures in the table of the largest errors
_TEMPLATE = jinja2.Environment(
    loader=jinja2.PackageLoader("bandgap.runs"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("report.html")


@dataclass(frozen=True, eq=False)
class ReportText:
    """What a report says that is not in the folder of the run.

    `title` is the name of the run, `data` that of its data set, `parent` that of the run that it
    refits. `command` repeats the run.
    """

    title: str = ""
    data: str = ""
    parent: str = ""
    command: str = ""


def write_report(run: Path | str, out: Path | str, *, text: ReportText | None = None) -> Path:
    """Write the report of a run to an HTML file, or to a PDF by an installed browser.

    Parameters
    ----------
    run
        Folder of the run.
    out
        File to write, a PDF where it ends in .pdf; it is replaced.
    text
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
    page = report_html(folder, text=text or ReportText())
    if file.suffix.lower() == ".pdf":
        from bandgap.runs.pdf_report import write_pdf

        write_pdf(page, file)
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
    return file


def report_html(folder: Path, *, text: ReportText) -> str:
    """Return the report of a run as HTML."""
    manifest = read_manifest(folder, kind="run")
    calibrator = load_calibrator(folder)
    curve = load_curve(folder / LEARNING_CURVE)
    values = {
        "title": text.title or manifest["title"],
        "version": manifest.get("versions", {}).get("bandgap", ""),
        "created": manifest["created"],
        "notes": [left_out_sentence(manifest), copies_of_run_sentence(manifest)]
        + [str(warning) for warning in manifest.get("warnings", ())],
        "data": _data_rows(manifest, text),
        "split": _split_rows(manifest),
        "posterior": _posterior_rows(manifest),
        "methods": methods_text(manifest, calibrator=calibrator),
        "settings": _setting_rows(manifest),
        "command": text.command,
        "versions": _version_rows(manifest),
        "citations": _citations(manifest),
    }
    if tested_ids(manifest):
        values |= _tested(load_heldout(folder, manifest), manifest, calibrator)
    if "refit" in manifest:
        parent = text.parent or str(manifest["refit"]["parent"])
        values["refit"] = refit_sentence(manifest, parent=parent)
    if curve is not None:
        values |= _curve_values(curve)
    return _TEMPLATE.render(values, nonce=secrets.token_urlsafe(), plotly=get_plotlyjs())


def _tested(
    heldout: HeldOut, manifest: Mapping[str, Any], calibrator: Calibrator | None
) -> dict[str, Any]:
    """Return the values of the report that need held-out structures."""
    tested: dict[str, Any] = {
        "verdict": result_verdict(heldout, manifest),
        "errors": _metric_rows(manifest),
        "figures": _figures(heldout),
        "worst": _worst(heldout),
        "calibrator": calibrator,
    }
    if heldout.predictions.p_metal is not None:
        tested["confusion"] = confusion_table(heldout).rename(
            columns=lambda name: name.replace("_", " ")
        )
    return tested


def _curve_values(curve: LearningCurve) -> dict[str, Any]:
    """Return the sentence, the figure and the numbers of a measured learning curve."""
    table = curve.table()
    means = table[table["kind"] == "mean"].drop(columns="kind")
    return {
        "curve": curve.sentence(),
        "curve_figure": plots.error_by_labels_figure(table, n=curve.n),
        "curve_means": means.rename(columns=lambda name: name.replace("_eV", " (eV)")),
    }


def _data_rows(manifest: Mapping[str, Any], text: ReportText) -> dict[str, str]:
    """Return where the labels came from, their content, and the source model."""
    data = manifest["data"]
    inputs = manifest.get("inputs") or {}
    card = manifest.get("source", {}).get("card") or {}
    rows = {
        "data set": text.data or str(inputs.get("data_set", "")),
        "structures": ", ".join(str(path) for path in inputs.get("structures", ())),
        "gaps": str(inputs.get("labels") or inputs.get("label") or ""),
        "labelled structures": f"{data['n_labelled']:,} of {data['n_given']:,} structures",
        "content (SHA-256, 16 digits)": str(data["fingerprint"]),
        "level of theory": str(manifest.get("level_of_theory") or "not recorded"),
        "licence of the labels": str(data.get("licence") or "not recorded"),
    }
    rows |= {
        f"source model, {name}": value
        for name, value in card_rows(card, manifest.get("source", {}).get("overlap")).items()
    }
    rows["source model, content"] = str(manifest.get("source", {}).get("fingerprint", ""))
    return {name: value for name, value in rows.items() if value}


def _split_rows(manifest: Mapping[str, Any]) -> dict[str, str]:
    refit = manifest.get("refit") or {}
    request = {**manifest["request"], **refit.get("request", {})}
    conformal = (manifest.get("conformal") or {}).get("ids", ())
    rows = {
        "learned from": f"{manifest['n']:,}",
        "held out for the test": f"{len(tested_ids(manifest)):,}",
        "split by": "formula" if request["by_formula"] else "structure",
        "seed": str(request["seed"]),
    }
    if refit:
        rows["learned from in the test"] = f"{refit['n']:,}"
    if conformal:
        rows["held back for conformal intervals"] = f"{len(conformal):,}"
    rows["test structures"] = ", ".join(tested_ids(manifest))
    return rows


def _metric_rows(manifest: Mapping[str, Any]) -> dict[str, str]:
    tested = dict(manifest.get("tested", {}))
    if not tested.get("n_near_copies"):
        tested.pop("n_near_copies", None)
    figures = {**manifest.get("metrics", {}), **tested}
    return {
        label(name): _number(value)
        for name, value in figures.items()
        if value is not None and name != "n"
    }


def _figures(heldout: HeldOut) -> dict[str, go.Figure]:
    """Return the figures of the test by their captions."""
    predictions = heldout.predictions
    lower, upper = predictions.interval(0.95)
    figures = {
        "Predicted against known gaps, with 95 % prediction intervals.": plots.parity(
            heldout.gaps_eV, predictions.mean_eV, lower, upper, ids=list(predictions.ids)
        ),
        "Coverage against level. Below the diagonal intervals are too narrow; inside the band it "
        "may be chance.": plots.coverage_figure(
            coverage_table(coverage_of(heldout, "prediction")), level=0.95
        ),
        "Signed error by element. Grey bars are chance.": plots.signed_error_figure(
            error_by_element(heldout)
        ),
        "Signed error by range of the predicted gap.": plots.signed_error_figure(
            error_by_gap(heldout)
        ),
    }
    if predictions.p_metal is not None:
        caption = "Share of metals against their predicted probability. Grey bars are chance."
        figures[caption] = plots.p_metal_figure(p_metal_table(heldout))
    return figures


def _worst(heldout: HeldOut) -> pd.DataFrame:
    order = np.argsort(-np.abs(heldout.errors_eV), kind="stable")[:WORST]
    predictions = heldout.predictions
    lower, upper = predictions.interval(0.95)
    return pd.DataFrame(
        {
            "structure": [predictions.ids[row] for row in order],
            "formula": [predictions.formulas[row] for row in order],
            "known (eV)": heldout.gaps_eV[order],
            "predicted (eV)": np.asarray(predictions.mean_eV)[order],
            "from (eV)": lower[order],
            "to (eV)": upper[order],
            "domain": [predictions.domain[row] for row in order],
        }
    )


def _posterior_rows(manifest: Mapping[str, Any]) -> dict[str, str]:
    diagnostics = manifest.get("diagnostics", {})
    rows = {"kind": ", around ".join(posterior_kinds(manifest))}
    if diagnostics.get("c_mean"):
        pairs = zip(diagnostics["c_mean"], diagnostics["c_sd"], strict=True)
        rows["layer weights c, mean and standard deviation"] = ", ".join(
            f"{mean:.2f} ± {sd:.2f}" for mean, sd in pairs
        )
    for name, title in (("rhat", "R-hat"), ("ess", "effective draws")):
        values = diagnostics.get(name) or {}
        if values:
            rows[title] = ", ".join(f"{key} {_number(value)}" for key, value in values.items())
    if "divergences" in diagnostics:
        rows["divergences"] = _number(diagnostics["divergences"])
    return rows


def _setting_rows(manifest: Mapping[str, Any]) -> dict[str, str]:
    rows = {f"request, {name}": value for name, value in _flat(manifest["request"])}
    rows |= {f"method, {name}": value for name, value in _flat(manifest["config"])}
    return rows | {f"descriptor, {name}": value for name, value in _flat(manifest["descriptor"])}


def _version_rows(manifest: Mapping[str, Any]) -> dict[str, str]:
    rows = {name: str(version) for name, version in manifest.get("versions", {}).items()}
    elapsed = manifest.get("elapsed_s", {}).get("all")
    peak = manifest.get("peak_memory_bytes", {}).get("process")
    if elapsed is not None:
        rows["time"] = f"{elapsed:,.0f} s"
    if peak is not None:
        rows["peak memory"] = f"{peak / 1e6:,.0f} MB"
    return rows


def _citations(manifest: Mapping[str, Any]) -> list[str]:
    texts = []
    if str(manifest["method"]).startswith("btl_pcp"):
        texts.append(citations.METHOD)
    if any(manifest["descriptor"].get(name) for name in ("k1", "k2", "k3")):
        texts += [citations.MBTR, citations.DSCRIBE]
    return [*texts, citations.DATA]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield every setting as text; those of a nested setting have its name in front."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _number(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "not a number" if value is None else str(value)
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3f}"
