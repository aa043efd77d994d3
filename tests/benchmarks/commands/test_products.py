"""`python -m benchmarks products`: what it prints and writes."""

import json

from bandgap.inference.network.compiled_kernels import by_numpy, multiply


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
