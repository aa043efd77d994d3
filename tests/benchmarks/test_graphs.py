"""The benchmark of generated graphs: exact graphs, the noise floor, and a small run."""

import json
from pathlib import Path

import numpy as np
import pytest

from bandgap.research.molecules.sequences import EdgeSequence, sequence_of
from benchmarks.__main__ import app
from benchmarks.graph_sets import cycle, ladder, random_tree
from benchmarks.graphs import PUBLISHED, GraphsBenchmark, is_exact, run_graphs
from tests.commands import run_in_process, use_own_home

PATH = sequence_of([(0, 1), (1, 2), (2, 3)])
TREE = random_tree(9, np.random.default_rng(0))
TWO_TRIANGLES = sequence_of([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
SHUFFLED_LADDER = sequence_of([(9 - a, 9 - b) for b, a in ladder(10).edges[::-1].tolist()])
# Like a ladder of four rungs, but the third one joins other nodes.
FALSE_LADDER = sequence_of(
    [(0, 1), (0, 2), (1, 3), (2, 3), (2, 5), (3, 4), (4, 6), (5, 7), (6, 7), (4, 7)]
)
REPEATED = sequence_of([(0, 1), (1, 2), (1, 2)])
LOOP = sequence_of([(0, 1), (1, 1)])


@pytest.mark.parametrize(
    ("set_name", "graph", "expected"),
    [
        ("cycles", cycle(5), True),
        ("cycles", PATH, False),
        ("cycles", TWO_TRIANGLES, False),
        ("ladders", ladder(8), True),
        ("ladders", ladder(4), True),
        ("ladders", SHUFFLED_LADDER, True),
        ("ladders", cycle(8), False),
        ("ladders", FALSE_LADDER, False),
        ("trees", TREE, True),
        ("trees", REPEATED, False),
        ("trees", LOOP, False),
        ("trees", cycle(5), False),
    ],
)
def test_exact_graphs_are_told_from_others(
    set_name: str, graph: EdgeSequence, expected: bool
) -> None:
    assert is_exact(set_name, graph) == expected


def test_small_benchmark_prints_the_floor_the_networks_and_the_thesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_home(tmp_path, monkeypatch)
    file = tmp_path / "graphs.json"
    result = run_in_process(app)(
        *("graphs", "--set", "cycles", "--network", "plain", "--network", "times"),
        *("--n", "20", "--steps", "2", "--json", file),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    names = [row["graphs"] for row in rows]
    assert names == ["two halves of the training set", "plain", "times", *PUBLISHED["cycles"]]
    floor, plain, _, *published = rows
    assert floor["degree"] < 0.05 < 0.1 < plain["degree"]
    assert published[-1]["degree"] == 0.1293
    assert "thesis, DeepGMG" in result.stdout


@pytest.mark.slow
def test_equal_seeds_give_equal_rows() -> None:
    config = GraphsBenchmark(n_training=20, n_validation=4, n_test=10, n_steps=2)
    first, again = (run_graphs(config, ["barabasi-albert"], ["plain"]) for _ in range(2))
    assert [row.distances for row in first] == [row.distances for row in again]
