"""`bandgap doctor`: check of the installation."""

import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import typer

from bandgap.descriptors.block_settings import INSTALL_LEVELS
from bandgap.foundation.browsers import find_browser
from bandgap.foundation.errors import BandgapError
from bandgap.foundation.extras import install_command

PACKAGES = ("torch", "dscribe", "ase", "numpy", "pandas", "scikit-learn", "streamlit", "plotly")
# Packages that may be missing: the extra of each, and what needs it.
OPTIONAL = {
    "chgnet": ("chgnet", "the smaller error of the model pbe"),
    "tblite": ("xtb", "electron levels by GFN1-xTB"),
    "sevenn": ("sevennet", "features of SevenNet"),
    "torch_geometric": ("graph", "graph networks"),
    "distributed": ("dask", "a cluster"),
    "fastapi": ("serve", "`bandgap serve`"),
    "huggingface_hub": ("hub", "runs on the Hugging Face Hub"),
    "mcp": ("mcp", "`bandgap mcp`"),
    "authlib": ("login", "`bandgap app --login`"),
}
CARBON_MONOXIDE = (
    b"2\n"
    b'Lattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3 pbc="T T T"\n'
    b"C 0 0 0\n"
    b"O 1.2 0 0\n"
)


def doctor() -> None:
    """Check the installation: versions, descriptors, device, data directory, demo data and worker.

    The exit code is 1 when a check fails. The lines of failed checks and of what is missing say
    what to do.
    """
    typer.echo(f"bandgap {importlib.metadata.version('bandgap')}, Python {sys.version.split()[0]}")
    for package in PACKAGES:
        typer.echo(f"  {package} {_version(package)}")
    for package, (extra, user) in OPTIONAL.items():
        remedy = INSTALL_LEVELS if extra == "xtb" else f"run {install_command(extra)}"
        missing = "" if find_spec(package) else f"; for {user} {remedy}"
        typer.echo(f"  {package} {_version(package)}{missing}")
    if find_browser() is None:
        typer.echo("  no browser; for PDF reports and pictures install Chromium, Chrome or Edge")
    checks: tuple[tuple[str, Callable[[], str]], ...] = (
        ("descriptors", _descriptors),
        ("device", _device),
        ("data directory", _data_directory),
        ("demo data", _demo_data),
        ("worker", _worker),
    )
    failed = [name for name, check in checks if not _passes(name, check)]
    if failed:
        typer.echo(f"Not in order: {', '.join(failed)}.", err=True)
        raise typer.Exit(1)
    typer.echo("All in order.")


def _passes(name: str, check: Callable[[], str]) -> bool:
    try:
        typer.echo(f"ok      {name}: {check()}")
    except (BandgapError, OSError, ImportError, ValueError, TypeError) as error:
        remedy = f". Run {install_command()}" if isinstance(error, ImportError) else ""
        typer.echo(f"failed  {name}: {error}{remedy}")
        return False
    return True


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "is not installed"


def _descriptors() -> str:
    """Compute the descriptor of one periodic crystal."""
    from bandgap.descriptors import config_for, featurize
    from bandgap.structures import read_structures

    structures = read_structures(CARBON_MONOXIDE, "carbon-monoxide.extxyz")
    result = featurize(structures, config_for(species=["C", "O"]))
    if (problem := result.problems[0]) is not None:
        raise BandgapError(f"a test crystal could not be described: {problem.text}")
    return f"{result.features.shape[1]} features of a test crystal"


def _device() -> str:
    from bandgap.foundation.machine import choose_device, cores, set_threads

    threads = f"{set_threads()} torch thread (BANDGAP_THREADS changes it)"
    return f"{choose_device()}, {cores()} cores, {threads}"


def _data_directory() -> str:
    from bandgap.jobs.home import open_home

    home = open_home()
    with tempfile.TemporaryFile(dir=home.folder):
        pass
    if os.environ.get("BANDGAP_HOME"):
        return f"{home.folder} (BANDGAP_HOME)"
    return f"{home.folder} (default; BANDGAP_HOME changes it)"


def _demo_data() -> str:
    from bandgap.datasets.demo import demo_source_folder, load_demo

    crystals = load_demo("crystals")
    source = demo_source_folder()
    if not (Path(source) / "manifest.json").is_file():
        raise BandgapError(
            f"the demo source network is missing in {source}. Install bandgap again."
        )
    return f"{len(crystals.records):,} crystals and a source network"


def _worker() -> str:
    from bandgap.jobs.database import Database
    from bandgap.jobs.home import open_home
    from bandgap.jobs.lock import worker_status

    status = worker_status(Database(open_home().database))
    if status.alive:
        return f"running, last heartbeat {status.age_s:.0f} s ago"
    return "not running; `bandgap app` starts one"
