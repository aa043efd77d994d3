"""The benchmark `gpu` on a CPU, and its error if there is no GPU."""

import pytest

from benchmarks.gpu import GpuBenchmark, run_benchmark

TINY = GpuBenchmark(
    n=12,
    p=20,
    hidden=(6, 4),
    chains=(1, 2),
    samples=(2, 3),
    one_by_one=2,
    gradients=2,
    epochs=2,
    repeats=1,
)


def test_all_shapes_are_measured():
    updates = []
    result = run_benchmark(TINY, device="cpu", progress=updates.append)
    assert result["device"] == "CPU, one thread"
    assert set(result["ms_per_gradient"]) == {1, 2}
    two = result["ms_per_gradient"][2]
    assert two["each_chain"] == pytest.approx(two["all_chains"] / 2) and two["each_chain"] > 0
    assert list(result["nptl"]) == ["one by one", "2 at once", "3 at once"]
    three = result["nptl"]["3 at once"]
    assert three["ratio"] == pytest.approx(
        result["nptl"]["one by one"]["seconds_each"] / three["seconds_each"]
    )
    assert [(u.done, u.total) for u in updates] == [(1, 2), (2, 2)] * 2
