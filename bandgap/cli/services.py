"""`bandgap app`, `bandgap worker` and `bandgap doctor`: dashboard, worker, and check of the installation."""

import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bandgap.foundation.errors import BandgapError

PACKAGES = ("torch", "dscribe", "ase", "numpy", "pandas", "scikit-learn", "streamlit", "plotly")


def app(
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 0.0.0.0 lets other machines in, and needs a token or --behind-proxy."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port to listen on; the next free one if taken.")
    ] = 8501,
    quota_gb: Annotated[
        str | None,
        typer.Option(
            metavar="GB",
            help="Disk space of a workspace, 0 for no limit; instead of BANDGAP_QUOTA_GB (10).",
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the dashboard in the browser.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the access token for browsers, instead of BANDGAP_APP_TOKEN. The printed address "
            "contains the token; afterwards the browser has a cookie.",
        ),
    ] = None,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Generate a token for this start, if none is given.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Host name that browsers use for this server. May be repeated."
        ),
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            help="A proxy controls the access; --allowed-host gives the name that browsers use for it.",
        ),
    ] = False,
) -> None:
    """Start the dashboard and its worker, print the address, and stop both on Ctrl-C."""
    from bandgap.jobs.serve import serve

    code = serve(
        host,
        port,
        quota_gb=quota_gb,
        open_browser=open_browser,
        token_file=token_file,
        new_token=new_token,
        host_names=allowed_host or (),
        behind_proxy=behind_proxy,
    )
    raise typer.Exit(code)


def worker() -> None:
    """Start only the worker, which runs the jobs of the dashboard. `bandgap app` starts one itself."""
    from bandgap.jobs.worker import main

    raise typer.Exit(main())


def doctor() -> None:
    """Check the installation: versions, descriptors, device, data directory, demo data and worker.

    The exit code is 1 when a check fails; the line of a failed check says what to do.
    """
    typer.echo(f"bandgap {importlib.metadata.version('bandgap')}, Python {sys.version.split()[0]}")
    for package in PACKAGES:
        typer.echo(f"  {package} {_version(package)}")
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
        typer.echo(f"failed  {name}: {error}")
        return False
    return True


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "is not installed"


def _descriptors() -> str:
    """Compute the descriptor of one periodic crystal.

    It fails where ase and dscribe are incompatible.
    """
    import warnings

    from bandgap.descriptors import config_for, featurize
    from bandgap.structures import read_structures

    text = b'2\nLattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3 pbc="T T T"\nC 0 0 0\nO 1.2 0 0\n'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        result = featurize(
            read_structures(text, "carbon-monoxide.extxyz"), config_for(species=["C", "O"])
        )
    if result.n_computed != 1:
        raise BandgapError(
            "a test crystal could not be described. Install ase below 3.27 (dscribe#165)."
        )
    return f"{result.features.shape[1]} features of a test crystal"


def _device() -> str:
    from bandgap.foundation.machine import choose_device, cores, set_threads

    return f"{choose_device()}, {cores()} cores, {set_threads()} torch thread (BANDGAP_THREADS changes it)"


def _data_directory() -> str:
    from bandgap.jobs.home import open_home

    home = open_home()
    with tempfile.TemporaryFile(dir=home.folder):
        pass
    source = (
        "BANDGAP_HOME" if os.environ.get("BANDGAP_HOME") else "default; BANDGAP_HOME changes it"
    )
    return f"{home.folder} ({source})"


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
