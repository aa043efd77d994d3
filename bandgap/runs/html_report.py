"""The report of a run: one HTML file with data, split, error, figures, settings and methods text.

The file needs no network and no other file: the library of the figures is inside. It says nothing
that is not in the folder of the run.
"""

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs

from bandgap import plots
from bandgap.evaluation.calibrators import Calibrator, load_calibrator
from bandgap.evaluation.figure_labels import label
from bandgap.evaluation.heldout import HeldOut, load_heldout, refit_sentence, tested_ids
from bandgap.evaluation.learning_curve import LearningCurve, load_curve
from bandgap.evaluation.metal_tables import confusion_table, p_metal_table
from bandgap.evaluation.reliability import coverage_of, coverage_table
from bandgap.evaluation.result_verdict import ResultVerdict, result_verdict
from bandgap.evaluation.signed_errors import error_by_element, error_by_gap
from bandgap.foundation import citations
from bandgap.foundation.arguments import as_folder
from bandgap.runs.methods_text import methods_text
from bandgap.sources.cards import card_rows, copies_of_run_sentence, left_out_sentence
from bandgap.storage.manifests import LEARNING_CURVE, posterior_kinds, read_manifest

WORST = 10  # structures in the table of the largest errors
_STATE_COLOURS = {"good": "#00704f", "fair": "#8a5a00", "poor": "#b3261e", "unknown": "#5a6068"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1B1F24; margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .9rem; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #e3e5e8;
  vertical-align: top; }
th { min-width: 8rem; } .wide th { min-width: 3rem; }
td { overflow-wrap: anywhere; } .wide td { overflow-wrap: normal; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f4f5f7; padding: .8rem; overflow-x: auto; white-space: pre-wrap; }
.badge { color: #fff; border-radius: .3rem; padding: .15rem .6rem; font-weight: 600; }
.figures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); }
.figures > figure { margin: 0; min-width: 0; overflow: hidden; }
figcaption, .note { color: #5a6068; font-size: .85rem; }
.wide { overflow-x: auto; }
@media print { h2 { break-after: avoid; } figure { break-inside: avoid; } }
"""


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
    heldout = load_heldout(folder, manifest) if tested_ids(manifest) else None
    title = text.title or str(manifest["title"])
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p class='note'>Report of a run of bandgap {_version(manifest)}, made "
        f"{html.escape(str(manifest['created']))}.</p>",
    ]
    if heldout is not None:
        parts.append(_verdict(result_verdict(heldout, manifest)))
    if "refit" in manifest:
        parent = text.parent or str(manifest["refit"]["parent"])
        parts.append(_paragraph(refit_sentence(manifest, parent=parent)))
    warnings = [left_out_sentence(manifest), copies_of_run_sentence(manifest)]
    warnings += [str(warning) for warning in manifest.get("warnings", ())]
    parts += [_paragraph(f"Note: {warning}") for warning in warnings if warning]
    parts += [
        _section("Data", _rows_table(_data_rows(manifest, text))),
        _section("Split", _rows_table(_split_rows(manifest))),
    ]
    if heldout is not None:
        parts += [
            _section("Error on held-out structures", _rows_table(_metric_rows(manifest))),
            _section("Figures", _figures(heldout)),
            *_metal_sections(heldout),
            _section("The largest errors", _frame_table(_worst(heldout))),
            _section("Calibration", _paragraph(_calibration_text(calibrator))),
        ]
    curve = load_curve(folder / LEARNING_CURVE)
    if curve is not None:
        parts.append(_section("Would more labels help?", _learning_curve(curve)))
    parts += [
        _section("Posterior", _rows_table(_posterior_rows(manifest))),
        _section("Methods", _paragraph(methods_text(manifest, calibrator=calibrator))),
        _section("Settings", _rows_table(_setting_rows(manifest))),
    ]
    if text.command:
        parts.append(_section("Command", f"<pre>{html.escape(text.command)}</pre>"))
    parts += [
        _section("Versions and cost", _rows_table(_version_rows(manifest))),
        _section("Please cite", _list(_citations(manifest))),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _verdict(verdict: ResultVerdict) -> str:
    colour = _STATE_COLOURS[verdict.state]
    return (
        f"<p><span class='badge' style='background:{colour}'>{html.escape(verdict.word)}</span> "
        f"<strong>{html.escape(verdict.sentence)}</strong></p>"
    )


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


def _figures(heldout: HeldOut) -> str:
    lower, upper = heldout.predictions.interval(0.95)
    parity = plots.parity(
        heldout.gaps_eV,
        heldout.predictions.mean_eV,
        lower,
        upper,
        ids=list(heldout.predictions.ids),
    )
    table = coverage_table(coverage_of(heldout, "prediction"))
    drawn = [
        (parity, "Predicted against known gaps, with 95 % prediction intervals."),
        (
            plots.coverage_figure(table, level=0.95),
            "Coverage against level. Below the diagonal intervals are too narrow; inside the band "
            "it may be chance.",
        ),
        (
            plots.signed_error_figure(error_by_element(heldout)),
            "Signed error by element. Grey bars are chance.",
        ),
        (
            plots.signed_error_figure(error_by_gap(heldout)),
            "Signed error by range of the predicted gap.",
        ),
    ]
    if heldout.predictions.p_metal is not None:
        drawn.append(
            (
                plots.p_metal_figure(p_metal_table(heldout)),
                "Share of metals against their predicted probability. Grey bars are chance.",
            )
        )
    figures = (
        f"<figure>{_figure_html(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>"
        for figure, caption in drawn
    )
    return f"<div class='figures'>{''.join(figures)}</div>"


def _figure_html(figure: go.Figure) -> str:
    text: str = plotly.io.to_html(
        figure,
        include_plotlyjs=False,
        full_html=False,
        config={"displaylogo": False, "displayModeBar": False, "responsive": True},
    )
    return text


def _learning_curve(curve: LearningCurve) -> str:
    """Return the sentence, the figure and the numbers of a measured learning curve."""
    table = curve.table()
    figure = _figure_html(plots.error_by_labels_figure(table, n=curve.n))
    means = table[table["kind"] == "mean"].drop(columns="kind")
    caption = "Means over random choices of labels (diamonds), and a power law with its 95 % range."
    return (
        f"{_paragraph(curve.sentence())}"
        f"<div class='figures'><figure>{figure}<figcaption>{caption}</figcaption></figure></div>"
        f"{_frame_table(means.rename(columns=lambda name: name.replace('_eV', ' (eV)')))}"
    )


def _metal_sections(heldout: HeldOut) -> list[str]:
    """Return the confusion of metals and semiconductors, nothing for a run without metals."""
    if heldout.predictions.p_metal is None:
        return []
    counts = confusion_table(heldout).rename(columns=lambda name: name.replace("_", " "))
    return [_section("Metals and semiconductors", _frame_table(counts))]


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


def _calibration_text(calibrator: Calibrator | None) -> str:
    if calibrator is None:
        return "No calibrator is stored: the intervals are those of the model."
    return f"{calibrator.sentence} It was measured on {calibrator.n_test:,} other structures."


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
    texts = [f"bandgap {_version(manifest)}, Apache License 2.0."]
    if str(manifest["method"]).startswith("btl_pcp"):
        texts.append(citations.METHOD)
    if any(manifest["descriptor"].get(name) for name in ("k1", "k2", "k3")):
        texts += [citations.MBTR, citations.DSCRIBE]
    return [*texts, citations.DATA]


def _version(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("versions", {}).get("bandgap", ""))


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


def _section(title: str, content: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{content}</section>"


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _list(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"


def _rows_table(rows: Mapping[str, str]) -> str:
    lines = (
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table>{''.join(lines)}</table>"


def _frame_table(frame: pd.DataFrame) -> str:
    """Return a data frame as a table; numbers have two decimals and are aligned right."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"<td class='number'>{value:.2f}</td>"
        return f"<td>{html.escape(str(value))}</td>"

    head = _row(frame.columns, lambda name: f"<th>{html.escape(str(name))}</th>")
    body = (_row(values, cell) for values in frame.itertuples(index=False))
    return f"<div class='wide'><table>{head}{''.join(body)}</table></div>"


def _row(values: Iterable[Any], cell: Callable[[Any], str]) -> str:
    return f"<tr>{''.join(cell(value) for value in values)}</tr>"
