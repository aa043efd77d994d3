"""`python -m benchmarks nptl` and `gpu`: batched training of networks on a CPU and on a GPU."""

from typing import Annotated, Any, Literal

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.inputs import descriptor_cache
from bandgap.cli.report import print_table, write_figures

SAMPLES = [10, 100, 300]


def nptl(
    n: Annotated[int, typer.Option(min=10, help="Crystals of the demo to train on.")] = 180,
    samples: Annotated[int, typer.Option(min=1, help="Networks.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each side; medians are shown.")] = 3,
    splits: Annotated[
        int, typer.Option(min=0, help="Splits of the comparison with an ensemble; 0 for none.")
    ] = 6,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    json_file: options.JsonFile = None,
) -> None:
    """Compare NPTL with a plain loop over torch.nn networks, and with an ensemble of the same size.

    The defaults take about 8 minutes on one idle core.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.nptl import NptlBenchmark, run_benchmark

    set_threads()
    config = NptlBenchmark(n=n, samples=samples, repeats=repeats, splits=splits, seed=seed)
    with progress_bars() as progress:
        result = run_benchmark(config, device=device, cache=descriptor_cache(), progress=progress)
    print_nptl(result)
    write_figures(json_file, result)


def gpu(
    device: Annotated[
        Literal["cuda", "cpu"], typer.Option(help="Device to measure. cpu is for comparison.")
    ] = "cuda",
    samples: Annotated[
        list[int], typer.Option(min=1, help="Networks trained together. May be repeated.")
    ] = SAMPLES,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of NPTL's training.")] = 40,
    gradients: Annotated[
        int, typer.Option(min=1, help="Gradients of the sampler that are timed together.")
    ] = 50,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each; medians are shown.")] = 3,
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Time the sampler's gradients and NPTL's training on a GPU, one by one and batched.

    Also measures peak memory. Fails if there is no CUDA device.
    """
    from bandgap.foundation.machine import set_threads
    from benchmarks.gpu import GpuBenchmark, run_benchmark

    set_threads()
    config = GpuBenchmark(
        samples=tuple(samples), epochs=epochs, gradients=gradients, repeats=repeats, seed=seed
    )
    with progress_bars() as progress:
        result = run_benchmark(config, device=device, progress=progress)
    print_gpu(result)
    write_figures(json_file, result)


def print_nptl(result: dict[str, Any]) -> None:
    """Print time, errors and memory of each variant, and the differences from the ensemble."""
    rows = []
    for name, row in result["speed"].items():
        numbers = (f"{row[k]:.3f}" for k in ("rmse_eV", "nll", "nll_best_sigma", "spread_eV"))
        rows.append((name, f"{row['seconds_each']:.3f}", f"{row['ratio']:.1f}", *numbers))
    print_table(
        ("", "s a network", "ratio", "RMSE eV", "NLL", "NLL, best sigma", "spread eV"), rows
    )
    typer.echo(
        f"{result['samples']} networks on {result['n']} crystals, {result['epochs']} epochs; "
        f"{result['optimiser']}, unless stated otherwise; on {result['device']}."
    )
    for name, size in (result["memory_MB_per_sample"] or {}).items():
        typer.echo(f"Memory of one additional network, {name}: {size:.2f} MB.")
    if result["paired"]:
        for key, title in (
            ("nll", "NLL"),
            ("nll_best_sigma", "NLL at the best sigma"),
            ("rmse_eV", "RMSE in eV"),
        ):
            row = result["paired"][key]
            typer.echo(
                f"{title}, NPTL minus ensemble: {row['mean']:+.4f} with standard error "
                f"{row['standard_error']:.4f}; lower in {row['won']} of "
                f"{len(result['paired']['splits'])} splits of one pool of crystals."
            )


def print_gpu(result: dict[str, Any]) -> None:
    """Print the time of a gradient and of a network, and the memory of a network."""
    typer.echo(f"{result['device']}, torch {result['torch']}")
    for chains, row in result["ms_per_gradient"].items():
        typer.echo(
            f"gradient, {chains} chains: {row['all_chains']:.3f} ms, "
            f"{row['each_chain']:.4f} ms a chain"
        )
    for name, row in result["nptl"].items():
        ratio = f", {row['ratio']:.1f} times as fast" if "ratio" in row else ""
        size = f", {row['MB_each']:.2f} MB a network" if "MB_each" in row else ""
        typer.echo(f"NPTL, {name}: {row['seconds_each']:.4f} s a network{ratio}{size}")
