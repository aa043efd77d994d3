"""`bandgap app` and `bandgap worker`: the dashboard with its worker, and the worker alone."""

from pathlib import Path
from typing import Annotated

import typer


def app(
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 0.0.0.0 lets other machines in, and needs a token or "
            "--behind-proxy."
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
            help="File with the access token for browsers, instead of BANDGAP_APP_TOKEN. The "
            "printed address contains the token; afterwards the browser has a cookie.",
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
            help="A proxy controls the access; --allowed-host gives the name that browsers use "
            "for it.",
        ),
    ] = False,
) -> None:
    """Start the dashboard and its worker, print the address, and stop both on Ctrl-C."""
    from bandgap.jobs.dashboard import run_dashboard

    code = run_dashboard(
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
    """Start only the worker, which runs the jobs of the dashboard. `bandgap app` starts one too."""
    from bandgap.jobs.worker import main

    raise typer.Exit(main())
