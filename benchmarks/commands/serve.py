"""`python -m benchmarks serve`: latency, throughput and memory of the service."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures

CLIENTS = [1, 8, 32]


def serve(
    model: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Run folder, such as bandgap-demo/seed-0/btl_pcp_pe."),
    ],
    clients: Annotated[
        list[int], typer.Option(min=1, help="Simultaneous clients. May be repeated.")
    ] = CLIENTS,
    requests: Annotated[
        int, typer.Option(min=1, help="Requests for each number of clients.")
    ] = 3_400,
    json_file: options.JsonFile = None,
) -> None:
    """Measure latency and throughput of `bandgap serve`.

    Each request has one crystal of the demo with about 60 atoms. The service is a separate
    process, reached over a socket.
    """
    from benchmarks.service import ServiceBenchmark, run_benchmark

    with progress_bars() as progress:
        result = run_benchmark(
            ServiceBenchmark(tuple(clients), requests), model=model, progress=progress
        )
    print_service(result)
    write_figures(json_file, result)


def print_service(result: dict[str, Any]) -> None:
    """Print a row for each number of clients, and the sizes of the structures."""
    rows = []
    for row in result["rows"]:
        memory = "?" if row["memory_MB"] is None else f"{row['memory_MB']:.0f}"
        processor = "?" if row["processor_ms"] is None else f"{row['processor_ms']:.1f}"
        times = (f"{row['p50_ms']:.0f}", f"{row['p95_ms']:.0f}", processor, f"{row['per_s']:.1f}")
        rows.append(
            (str(row["clients"]), f"{row['requests']:,}", str(row["errors"]), *times, memory)
        )
    times = ("p50 (ms)", "p95 (ms)", "CPU (ms)", "requests/s")
    print_table(("clients", "requests", "errors", *times, "memory after (MB)"), rows)
    low, high = result["atoms"]
    start = (
        ""
        if result["start_MB"] is None
        else f" Memory after the first requests: {result['start_MB']:.0f} MB."
    )
    typer.echo(f"Each request has one crystal of {low} to {high} atoms.{start}")
