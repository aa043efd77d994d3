"""The results of a run as text for the terminal."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bandgap.cli.bars import duration
from bandgap.evaluation.figure_labels import label
from bandgap.sources.cards import (
    card_rows,
    copies_of_run_sentence,
    extras_sentence,
    left_out_sentence,
)

# The diagnostics that are figure_text, in this order; the manifest has more.
DIAGNOSTICS = ("c_mean", "rhat_max", "ess_min", "divergences")


def run_figures(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run in display order: metrics, diagnostics, seconds."""
    figures = dict(manifest.get("metrics", {}))
    figures |= {
        k: manifest["diagnostics"][k] for k in DIAGNOSTICS if k in manifest.get("diagnostics", {})
    }
    if "elapsed_s" in manifest:
        figures["seconds"] = round(manifest["elapsed_s"]["all"], 1)
    return figures


def print_run(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Print figures, warnings, card and folder of a run or a source model."""
    from bandgap.evaluation.heldout import refit_sentence
    from bandgap.inference.prior_comparison import equal_to_prior

    tested = dict(manifest.get("tested", {}))
    if not tested.get("n_near_copies"):
        tested.pop("n_near_copies", None)
    print_figures(run_figures(manifest) | tested)
    if "refit" in manifest:
        typer.echo(refit_sentence(manifest, parent=manifest["refit"]["parent"]))
    for sentence in tested_sentences(manifest):
        typer.echo(sentence)
    for sentence in (left_out_sentence(manifest), copies_of_run_sentence(manifest)):
        if sentence:
            typer.echo(sentence)
    source = manifest.get("source", {})
    rows = card_rows(
        manifest["card"] if "card" in manifest else source.get("card", {}), source.get("overlap")
    )
    for name, text in rows.items():
        typer.echo(f"source, {name}: {text}")
    if "card" in manifest:
        typer.echo(f"source, beyond its point estimate: {extras_sentence(manifest)}")
    for sentence in equal_to_prior(manifest.get("diagnostics", {}).get("scales", ())):
        typer.echo(f"Note: {sentence}")
    print_warnings(manifest)
    typer.echo(f"written to {folder}")


def print_warnings(manifest: Mapping[str, Any]) -> None:
    """Print the warnings on a run or a source model."""
    for warning in manifest.get("warnings", ()):
        typer.echo(f"Warning: {warning}", err=True)


def tested_sentences(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the errors of a run are worth; empty without test structures.

    Those of a source model are among its warnings.
    """
    from bandgap.evaluation.error_context import error_sentences

    tested = manifest.get("tested")
    if not tested or manifest["kind"] != "run":
        return []
    rmse_eV = float(manifest["metrics"]["rmse_eV"])
    return error_sentences(n=int(tested["n"]), rmse_eV=rmse_eV, context=tested)


def print_sources(cards: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the card of every set that a source was trained on, by its name."""
    for name, card in cards.items():
        for what, text in card_rows(card).items():
            typer.echo(f"{name}, {what}: {text}")


def print_extras(folder: Path) -> None:
    """Print what every output of a source of several sets contains beyond its point estimate."""
    from bandgap.sources.sets import open_sources
    from bandgap.storage.manifests import read_manifest

    members = open_sources(folder).members
    for name in members[0]:
        sentences = dict.fromkeys(
            extras_sentence(read_manifest(member[name], kind="source")) for member in members
        )
        typer.echo(f"{name}, beyond its point estimate: {'; in other networks: '.join(sentences)}")


def print_figures(figures: Mapping[str, Any]) -> None:
    """Print figures by name, one on each line, aligned.

    The coverage of few structures is a count: 1 of 1 is not 100 %.
    """
    from bandgap.evaluation.result_verdict import FEWEST_JUDGED

    n = figures.get("n", FEWEST_JUDGED)
    width = max((len(label(name)) for name in figures), default=0)
    for name, value in figures.items():
        text = figure_text(name, value)
        if name.startswith("coverage") and n < FEWEST_JUDGED:
            text = f"{round(n * value)} of {n}, too few to judge"
        typer.echo(f"{label(name):<{width}}  {text}")


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    text_columns: Collection[str] = (),
    width: int | None = None,
) -> None:
    """Print a table; `text_columns` (default: the first) are aligned left, all others right."""
    left_columns = text_columns or columns[:1]
    table = Table(
        *(
            Column(name, overflow="fold", justify="left" if name in left_columns else "right")
            for name in columns
        ),
        box=None,
    )
    for row in rows:
        table.add_row(*row)
    Console(width=width).print(table)


def write_figures(file: Path | None, figures: Mapping[Any, Any]) -> None:
    """Write figures as JSON to a file, if one is given."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def figure_text(name: str, value: Any) -> str:
    """Return the text of a figure: errors with three digits, coverage in %, times with units.

    >>> figure_text("rmse_eV", 0.45678), figure_text("coverage_95", 0.947)
    ('0.457', '95 %')
    >>> figure_text("seconds", 130.4), figure_text("c_mean", [0.2, 0.8])
    ('2 min 10 s', '0.200, 0.800')
    """
    if isinstance(value, (list, tuple)):
        return ", ".join(figure_text(name, item) for item in value)
    if not isinstance(value, (int, float)):
        return "-" if value is None else str(value)
    if name.startswith("coverage"):
        return f"{100 * value:.0f} %"
    if name == "seconds":
        return duration(value)
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3f}"
