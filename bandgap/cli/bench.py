"""`bandgap bench`: measurements of speed, each beside its rival in the same run."""

import typer

from bandgap.cli import bench_accuracy, bench_last_layer, bench_networks, bench_pages, bench_posterior, bench_products

bench = typer.Typer(no_args_is_help=True)


@bench.callback()
def _root() -> None:
    """Measure speed beside what one would use instead; an idle machine tells the truth."""


bench.command("nptl", epilog="Example: bandgap bench nptl --repeats 1 --splits 0 --json nptl.json")(bench_networks.nptl)
bench.command("gpu", epilog="Example: bandgap bench gpu --json gpu.json")(bench_networks.gpu)
bench.command("accuracy", epilog="Example: bandgap bench accuracy --data DATA --out accuracy --n 100 --seeds 1")(
    bench_accuracy.accuracy
)
bench.command("last-layer", epilog="Example: bandgap bench last-layer --n 500 --no-accuracy --json last_layer.json")(
    bench_last_layer.last_layer
)
bench.command("posterior", epilog="Example: bandgap bench posterior --repeats 3 --json posterior.json")(
    bench_posterior.posterior
)
bench.command("products", epilog="Example: bandgap bench products --n 200 --json products.json")(
    bench_products.products
)
bench.command("pages", epilog="Example: bandgap bench pages --visits 20 --json pages.json")(bench_pages.pages)
