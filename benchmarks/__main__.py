"""The command line of the benchmarks: `python -m benchmarks NAME`."""

import typer

from bandgap.cli.commands import PlainErrors
from benchmarks.commands import (
    accuracy,
    crystals,
    day,
    domain,
    drawing,
    early_stopping,
    graphs,
    group,
    kinds,
    last_layer,
    metals,
    networks,
    next_labels,
    oe62,
    pages,
    pbp,
    posterior,
    products,
    propose,
    quick_check,
    scale,
    serve,
    sgmcmc,
    size,
    study,
    unseen_elements,
    vecchia,
    weighted_conformal,
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
    """Compare speed and accuracy with alternatives. Run on an idle machine: load distorts times."""


# Every command with the options of its example.
for _command, _options in (
    (networks.nptl, "--repeats 1 --splits 0 --json nptl.json"),
    (networks.gpu, "--json gpu.json"),
    (accuracy.accuracy, "--data DATA --out accuracy --n 100 --seeds 1"),
    (crystals.crystals, "--data DATA --out crystals --set perovskites --n 100 --seeds 1"),
    (domain.domain, "--data DATA --set demo --n 250 --seeds 1 --json domain.json"),
    (kinds.kinds, "--data DATA --out kinds --set organic --seeds 3"),
    (metals.metals, "--data DATA --out metals --seeds 1 --potential none"),
    (next_labels.next_labels, "--data DATA --out next --set metals --seeds 2"),
    (early_stopping.early_stopping, "--splits 2 --json early_stopping.json"),
    (oe62.oe62, "--data DATA --no-size --json oe62.json"),
    (last_layer.last_layer, "--n 500 --no-accuracy --json last_layer.json"),
    (posterior.posterior, "--repeats 3 --json posterior.json"),
    (pbp.pbp, "--splits 1 --json pbp.json"),
    (pbp.uci, "--data DATA --set yacht --splits 5 --json uci.json"),
    (sgmcmc.sgmcmc, "--data DATA --n 2000 --json sgmcmc.json"),
    (vecchia.vecchia, "--data DATA --n 2000 --no-rivals --json vecchia.json"),
    (products.products, "--n 200 --json products.json"),
    (quick_check.quick_check, "--data DATA --set perovskites --seeds 2 --json quick_check.json"),
    (propose.propose, "--n 1000 --steps 200 --generated 100 --count 20 --json propose.json"),
    (graphs.graphs, "--set cycles --n 200 --steps 100 --json graphs.json"),
    (scale.predict, "--model run --structures new.extxyz --repeats 1 --json predict.json"),
    (scale.scale, "--model run --structures new.extxyz --n 1000 --n 4000 --json scale.json"),
    (pages.pages, "--visits 20 --json pages.json"),
    (group.group, "--json group.json"),
    (day.day, "--width 1280 --json day.json"),
    (drawing.drawing, "--repeats 10 --json drawing.json"),
    (serve.serve, "--model run --json serve.json"),
    (size.size, ""),
    (study.study, "table-3.1 --scale smoke"),
    (
        unseen_elements.unseen_elements,
        "--data DATA --set perovskites --seeds 1 --json unseen_elements.json",
    ),
    (
        weighted_conformal.weighted_conformal,
        "--data DATA --set demo --seeds 1 --json weighted_conformal.json",
    ),
):
    _name = _command.__name__.replace("_", "-").removesuffix("-labels")  # `next` is a built-in
    app.command(_name, epilog=f"Example: python -m benchmarks {_name} {_options}")(_command)

if __name__ == "__main__":
    app()
