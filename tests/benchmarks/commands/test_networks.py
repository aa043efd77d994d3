"""`python -m benchmarks nptl` and `gpu`: options, tables and the file of figures."""

import json

import pytest
import torch

from benchmarks.commands import networks


def test_gpu_benchmark_with_device_cpu_measures_the_cpu(run, tmp_path):
    file = tmp_path / "gpu.json"
    short_run = ("--samples", 1, "--repeats", 1, "--epochs", 1, "--gradients", 1)
    result = run("gpu", "--device", "cpu", *short_run, "--json", file)
    assert result.exit_code == 0, result.output
    assert "NPTL, one by one: " in result.output and "NPTL, 1 at once: " in result.output
    assert set(json.loads(file.read_text())["nptl"]) == {"one by one", "1 at once"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_gpu_benchmark_without_a_gpu_fails_with_one_message(run):
    result = run("gpu")
    assert result.exit_code == 1
    assert "finds no CUDA device here. Nothing was measured" in result.output


def test_nptl_prints_variants_memory_and_differences(capsys):
    side = {
        "seconds_each": 0.5,
        "ratio": 4.0,
        "rmse_eV": 0.4,
        "nll": 0.51,
        "nll_best_sigma": 0.5,
        "spread_eV": 0.1,
    }
    pair = {"mean": -0.02, "standard_error": 0.01, "won": 5}
    networks.print_nptl(
        {
            "samples": 20,
            "n": 180,
            "epochs": 40,
            "optimiser": "Adam",
            "device": "cpu",
            "speed": {"textbook loop": side, "bandgap": side},
            "memory_MB_per_sample": {"row space": 0.7},
            "paired": {"splits": [{}] * 6, "nll": pair, "nll_best_sigma": pair, "rmse_eV": pair},
        }
    )
    out = capsys.readouterr().out
    assert "textbook loop" in out and "0.500" in out
    assert "Memory of one additional network, row space: 0.70 MB." in out
    assert (
        "NLL, NPTL minus ensemble: -0.0200 with standard error 0.0100; lower in 5 of 6 splits"
        in out
    )
