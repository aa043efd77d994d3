"""`python -m data.making NAME`: regenerate the demo data in a checkout.

The shipped files are in `data/`. The wheel has the files, but not this package.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.commands import CheckedCommand, PlainErrors
from bandgap.cli.inputs import descriptor_cache
from bandgap.foundation.errors import ConfigError

PRESET = "any-elements"  # Of the source on inorganic crystals.
# Written to the manifest.
HOW = (
    "train-source --variational on the learned part of source.extxyz.gz, preset any-elements, "
    "seed 0"
)

app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """Regenerate the demo data from their seed."""


@app.command(
    "molecular",
    cls=CheckedCommand,
    epilog="Example: python -m data.making molecular --out data --jobs 2",
)
def make_molecular(
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder to write. An interrupted call resumes there."),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed. The shipped data have 2026.")] = 2026,
    n_molecules: Annotated[int, typer.Option(min=1, help="Molecules of the source set.")] = 11_000,
    n_crystals: Annotated[
        int, typer.Option(min=1, help="Molecular crystals of the target set.")
    ] = 1_600,
    jobs: options.Jobs = 1,
) -> None:
    """Generate molecules and crystals with semi-empirical gaps, and sample CIF files.

    Takes about 70 minutes on one core. Needs the extra datagen: pip install "bandgap[datagen]".
    """
    try:
        from data.making.molecular import make_demo_data
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'{error.name} is not installed. Run pip install "bandgap[datagen]" first.'
        ) from error
    with progress_bars() as progress:
        manifest = make_demo_data(
            out,
            seed=seed,
            n_molecules=n_molecules,
            n_crystals=n_crystals,
            n_jobs=jobs,
            progress=progress,
        )
    typer.echo(f"The data are in {manifest.parent}.")


@app.command(
    "inorganic",
    cls=CheckedCommand,
    epilog="Example: python -m data.making inorganic --raw mp_crystals_pbe --out data/inorganic",
)
def make_inorganic(
    raw: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder with cifs.zip and mp_crystals_pbe.csv.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    jobs: options.Jobs = 1,
) -> None:
    """Generate the demo of Materials Project crystals: both sets, then the source network."""
    from bandgap.datasets.demo import HELD_OUT, load_inorganic
    from bandgap.datasets.table import LabelledSet
    from bandgap.runs.requests import SourceRequest
    from bandgap.runs.source import train_source_run
    from data.making.materials_project import ATTRIBUTION, LICENCE, make_inorganic_demo
    from data.making.shipping import SOURCE_MODEL, seal_source_model

    with progress_bars() as progress:
        make_inorganic_demo(raw, out, progress=progress)
        demo = load_inorganic("source", folder=out)
        learned = (demo.table["part"] != HELD_OUT).to_numpy().nonzero()[0].tolist()
        train_source_run(
            LabelledSet(
                [demo.records[row] for row in learned],
                demo.gaps_eV[learned],
                level_of_theory=demo.level_of_theory,
                licence=f"{LICENCE}. {ATTRIBUTION}",
            ),
            SourceRequest(preset=PRESET, variational=True, n_jobs=jobs),
            out=out / SOURCE_MODEL,
            cache=descriptor_cache(),
            progress=progress,
        )
    seal_source_model(out, how=HOW)
    typer.echo(f"The data are in {out}.")


@app.command(
    "pbe",
    cls=CheckedCommand,
    epilog="Example: python -m data.making pbe --structures crystals.extxyz "
    "--structures metals.extxyz --out data/models",
)
def make_pbe(
    structures: Annotated[
        list[Path], typer.Option(metavar="FILE", help="extXYZ files with gap_eV, 0 for metals.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write the models to.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed. The shipped models have 0.")] = 0,
    is_judged: Annotated[
        bool,
        typer.Option(
            "--judge",
            help="Write errors.csv instead: of the same training on five splits by formula, and of "
            "peers.",
        ),
    ] = False,
) -> None:
    """Train the shipped models of PBE gaps, with and without CHGNet.

    Takes about 30 minutes on one core, half of it for CHGNet, which has to be installed.
    """
    from data.making.pbe_model import judge_models, make_models

    if is_judged:
        import pandas as pd

        with progress_bars() as progress:
            rows = judge_models(structures, seed=seed, cache=descriptor_cache(), progress=progress)
            table = pd.DataFrame(rows)
        out.mkdir(parents=True, exist_ok=True)
        table.to_csv(out / "errors.csv", index=False)
        typer.echo(table.round(3).to_string(index=False))
        return
    with progress_bars() as progress:
        folders = make_models(
            structures, out, seed=seed, cache=descriptor_cache(), progress=progress
        )
    typer.echo(f"The models are in {', '.join(map(str, folders))}.")


@app.command(
    "seal",
    cls=CheckedCommand,
    epilog='Example: python -m data.making seal --out data --how "train-source, seed 0"',
)
def seal(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the demo data.")],
    how: Annotated[str, typer.Option(help="How the source model was trained, in one sentence.")],
) -> None:
    """Write the checksums of the source model into the manifest of the demo data."""
    from data.making.shipping import seal_source_model

    typer.echo(f"The checksums are in {seal_source_model(out, how=how)}.")


@app.command(
    "result",
    cls=CheckedCommand,
    epilog="Example: python -m data.making result --run bandgap-demo/seed-0/btl_pcp_pe "
    "--out app/components/home/demo_result.json",
)
def result(
    run: Annotated[Path, typer.Option(metavar="DIR", help="Folder of a run of `bandgap demo`.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON file to write.")],
) -> None:
    """Write the result of the demo that the page Home shows if the workspace has no run."""
    from data.making.demo_result import home_page_result

    out.write_text(
        json.dumps(home_page_result(run), separators=(",", ":")) + "\n", encoding="utf-8"
    )
    typer.echo(f"The result is in {out}.")


if __name__ == "__main__":
    app()
