"""`bandgap serve`: predictions of stored runs over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli.dashboard import TRUSTED_PROXY, USER_HEADER
from bandgap.foundation.extras import not_installed


def serve(
    model: Annotated[
        list[Path],
        typer.Option(
            metavar="DIR",
            help="Run folder that `bandgap transfer` wrote, or pbe: the shipped model. May be "
            "repeated; the first is used where a request names none.",
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")
    ] = 8600,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 0.0.0.0 admits other machines, and needs a token."
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token that requests must have (Authorization: Bearer TOKEN); "
            "instead of BANDGAP_SERVICE_TOKEN. Without a token only requests from this "
            "machine are answered.",
        ),
    ] = None,
    user_header: Annotated[str, USER_HEADER] = "",
    trusted_proxy: Annotated[str, TRUSTED_PROXY] = "",
    max_mb: Annotated[
        int, typer.Option(min=1, metavar="MB", help="Largest body of a request.")
    ] = 20,
    max_structures: Annotated[
        int, typer.Option(min=1, metavar="N", help="Largest number of structures in a request.")
    ] = 1000,
    max_waiting: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Requests accepted at the same time; further ones are answered 429.",
        ),
    ] = 64,
    seconds: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="Longest time of a request.")
    ] = 60.0,
) -> None:
    """Serve predictions of runs over HTTP. The values are those of `bandgap predict`, as JSON.

    POST structures (CIF, POSCAR, extXYZ, uploads, or JSON of ASE and pymatgen) to /predict. The
    interface is documented at /docs. Needs the extra serve.
    """
    try:
        from bandgap.jobs.service.server import run_service
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "bandgap":
            raise
        raise not_installed("`bandgap serve`", error.name, extra="serve") from error
    from bandgap.datasets.shipped_models import find_model
    from bandgap.jobs.service.limits import ServiceLimits

    limits = ServiceLimits(
        1_000_000 * max_mb, max_structures, max_waiting=max_waiting, seconds=seconds
    )
    raise typer.Exit(
        run_service(
            [find_model(name).path for name in model],
            host=host,
            port=port,
            token_file=token_file,
            user_header=user_header,
            trusted_proxy=trusted_proxy,
            limits=limits,
            echo=typer.echo,
        )
    )
