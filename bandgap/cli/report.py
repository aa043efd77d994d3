"""What a run found, as the few lines that a reader needs on the terminal."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from bandgap.errors import ArtifactError
from bandgap.quantities import Quantity

_LABELS = {q.column: q.axis for q in Quantity}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run's or a model's folder.

    Raises ArtifactError when there is none, or when it is not JSON.
    """
    path = folder / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtifactError(f"{folder} has no manifest.json. Give what train-source or transfer wrote.") from error
    except json.JSONDecodeError as error:
        raise ArtifactError(f"{path}: not readable as JSON ({error}). The folder is damaged; make it again.") from error
    return manifest


def print_run(folder: Path) -> None:
    """Print the figures and the warnings in a folder's manifest, and where it is."""
    manifest = read_manifest(folder)
    print_figures(manifest.get("metrics", {}))
    print_figures({k: v for k, v in manifest.get("diagnostics", {}).items() if isinstance(v, (int, float))})
    for warning in manifest.get("warnings", ()):
        typer.echo(f"Warning: {warning}", err=True)
    typer.echo(f"written to {folder}")


def print_figures(figures: Mapping[str, Any]) -> None:
    """Print figures by name, one a line, aligned; errors in eV with three digits, coverage in per cent."""
    lines = [(label(name), shown(name, value)) for name, value in figures.items() if isinstance(value, (int, float))]
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        typer.echo(f"{name:<{width}}  {value}")


def label(name: str) -> str:
    """Return the reader's name of a figure: rmse_eV -> RMSE (eV), coverage_95 -> coverage of the 95 % interval."""
    if name in _LABELS:
        return _LABELS[name]
    head, _, tail = name.partition("_")
    if head in ("coverage", "width") and tail.removesuffix("_eV"):
        noun = "coverage" if head == "coverage" else "mean width"
        unit = " (eV)" if head == "width" else ""
        return f"{noun} of the {tail.removesuffix('_eV')} % interval{unit}"
    return name.replace("_", " ")


def shown(name: str, value: float) -> str:
    """Return a figure as it is printed.

    >>> shown("rmse_eV", 0.45678), shown("coverage_95", 0.947), shown("seconds", 130.4), shown("divergences", 0)
    ('0.457', '95 %', '2 min 10 s', '0')
    """
    if name.startswith("coverage"):
        return f"{100 * value:.0f} %"
    if name in ("seconds", "elapsed_s"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Return a time in words: 8.2 s, 2 min 10 s, 1 h 5 min.

    >>> duration(8.21), duration(130.4), duration(3900)
    ('8.2 s', '2 min 10 s', '1 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
