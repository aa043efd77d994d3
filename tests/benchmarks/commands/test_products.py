"""`python -m benchmarks products`: what it prints and writes."""

import json

from bandgap.inference.network.compiled_kernels import by_numpy, multiply
from benchmarks.commands.products import print_products


def test_both_libraries_are_timed_and_the_used_one_is_printed(run, tmp_path):
    file = tmp_path / "products.json"
    result = run("products", "--n", 20, "--steps", 20, "--repeats", 1, "--json", file)
    assert result.exit_code == 0, result.output
    written = json.loads(file.read_text())
    assert min(written["ms"].values()) > 0
    assert written["taken"] == ("numpy" if multiply is by_numpy else "torch")
    assert f"the sampler uses {written['taken']} here" in result.output
    assert (
        "20 rows, 64 inputs, 128 and 64 units, one thread; medians of 1 times of 20 steps"
        in result.output
    )


def test_ratio_is_that_of_the_medians(capsys):
    settings = {"n": 500, "inputs": 64, "units": (128, 64), "steps": 200, "repeats": 15}
    figures = {
        "settings": settings,
        "ms": {"torch": 0.6, "numpy": 0.4},
        "taken": "numpy",
        "openblas": ["Zen"],
    }
    print_products(figures)
    out = capsys.readouterr().out
    assert "torch: 0.600 ms a step; numpy (OpenBLAS for Zen): 0.400 ms a step" in out
    assert "numpy is 1.50 times as fast" in out
