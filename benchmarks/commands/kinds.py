"""`python -m benchmarks kinds`: the proposed method against others on every kind of crystals."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

import typer

from bandgap.cli import options
from bandgap.foundation.errors import InputError
from benchmarks.commands.crystals import crystals
from benchmarks.commands.metals import metals
from benchmarks.commands.options import DataFolder, ResultsFolder

CHGNET: Final = "chgnet-two-layers"
SEVENNET: Final = "sevennet-mf-0"
WITHOUT_SOURCE: Final = ("stacking", "parts_gp", "gaussian_process", "kernel_ridge")

# The measurement of each kind, by name.
KINDS: Final[Mapping[str, Callable[..., None]]] = {
    "organic": partial(
        crystals,
        sets=["organic"],
        methods=[
            f"{method}{levels}"
            for method in ("feature_gp", *WITHOUT_SOURCE)
            for levels in ("", "+hueckel", "+levels", "+both")
        ],
        sizes=[100],
        potentials=["none"],
    ),
    "perovskites": partial(
        crystals,
        sets=["perovskites"],
        methods=[f"{method}{levels}" for method in WITHOUT_SOURCE for levels in ("", "+molecules")],
        sizes=[100, 250],
        potentials=[CHGNET],
    ),
    "inorganic": partial(
        crystals,
        sets=["inorganic"],
        methods=list(WITHOUT_SOURCE),
        sizes=[200, 1000],
        potentials=[CHGNET, SEVENNET],
    ),
    "metals": partial(metals, methods=list(WITHOUT_SOURCE), sizes=[100, 400], potentials=["none"]),
    "metals-potentials": partial(
        metals,
        methods=list(WITHOUT_SOURCE),
        sizes=[100, 400],
        potentials=[CHGNET, SEVENNET],
    ),
}

WITHOUT_PEERS: Final = ("metals", "metals-potentials")


def kinds(
    data: DataFolder,
    out: ResultsFolder,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            help=f"One of {', '.join(KINDS)}. May be repeated. Default: all of them.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    seeds: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 5,
    peers: Annotated[
        bool,
        typer.Option(help="Whether scikit-learn's methods are compared. Never on metals."),
    ] = True,
    jobs: options.Jobs = 1,
) -> None:
    """Compare the proposed method with others on every kind of crystals.

    These are the sets of `crystals` and `metals`, with the sizes, electron levels and pretrained
    potentials in the documentation's page "Which source and method". It takes hours, and needs the
    extras chgnet, sevennet and xtb. An interrupted call resumes when it is repeated.
    """
    for name in sets:
        if name not in KINDS:
            raise InputError(f"set {name!r}. Accepted: {', '.join(KINDS)}.")
    for name in sets or KINDS:
        settings: dict[str, Any] = {} if name in WITHOUT_PEERS else {"peers": peers}
        KINDS[name](data, out / name, seeds=seeds, jobs=jobs, **settings)
