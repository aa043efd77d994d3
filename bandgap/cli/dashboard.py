"""`bandgap app` and `bandgap worker`: the dashboard with its worker, and the worker alone."""

from pathlib import Path
from typing import Annotated

import typer

USER_HEADER = typer.Option(
    metavar="NAME",
    help="Header in which a proxy names the person, such as X-Forwarded-Email. Needs "
    "--trusted-proxy.",
)
TRUSTED_PROXY = typer.Option(
    metavar="ADDRESS", help="Address or network of the proxy; other requests are refused."
)
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        min=1,
        help="Trainings side by side, each with its share of cores and memory; as many short jobs.",
    ),
]


def app(
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 0.0.0.0 lets other machines in, and needs a token, "
            "--user-header or --login."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port to listen on; the next free one if taken.")
    ] = 8501,
    quota_gb: Annotated[
        str | None,
        typer.Option(
            metavar="GB",
            help="Disk space of a person, 0 for no limit; instead of BANDGAP_QUOTA_GB (10).",
        ),
    ] = None,
    workers: Workers = 1,
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
    user_header: Annotated[str, USER_HEADER] = "",
    trusted_proxy: Annotated[str, TRUSTED_PROXY] = "",
    login: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with the settings of a login by OpenID Connect. Needs the extra login.",
        ),
    ] = None,
) -> None:
    """Start the dashboard and its worker, print the address, and stop both on Ctrl-C."""
    from bandgap.jobs.dashboard import run_dashboard

    code = run_dashboard(
        host,
        port,
        quota_gb=quota_gb,
        workers=workers,
        open_browser=open_browser,
        token_file=token_file,
        new_token=new_token,
        host_names=allowed_host or (),
        trusted_proxy=trusted_proxy,
        user_header=user_header,
        login=login,
    )
    raise typer.Exit(code)


def worker(workers: Workers = 1) -> None:
    """Start only the worker, which runs the jobs of the dashboard. `bandgap app` starts one too."""
    from bandgap.jobs.worker import main

    raise typer.Exit(main(workers))
