"""`python -m benchmarks uci` and `pbp`: options, tables and the file of figures."""

import json

from benchmarks.uci_published import PAPER, published
from tests.benchmarks.test_uci import folder  # noqa: F401 - a fixture


def test_uci_prints_a_row_for_every_set_and_writes_all_splits(run, folder, tmp_path):  # noqa: F811
    file = tmp_path / "uci.json"
    command = (
        "uci",
        "--data",
        folder,
        "--set",
        "yacht",
        "--passes",
        5,
        "--splits",
        2,
        "--json",
        file,
    )
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "yacht" in result.output and "1.015" not in result.output
    assert (
        "Each row was counted 5 times: the uncertainty of the weights is understated."
        in result.output
    )
    written = json.loads(file.read_text())
    assert [fit["split"] for fit in written["fits"]] == [0, 1] and written["settings"][
        "hidden"
    ] == [50]


def test_uci_shows_published_figures_of_network_and_method(run, folder):  # noqa: F811
    result = run("uci", "--data", folder, "--set", "yacht", "--splits", 1)
    assert result.exit_code == 0, result.output
    table = result.output.split("pbp, hidden")[0]
    for text in ("RMSE 2015", "1.015", "-1.634", "1.344 +- 0.061", "-1.767 +- 0.027"):
        assert text in table
    assert "2022: the thesis, means of five other splits of 80/20" in result.output


def test_thesis_has_figures_of_every_network_and_set_but_energy():
    nets = [
        ((50,), True),
        ((10, 10), True),
        ((10,), True),
        ((100,), True),
        ((50,), False),
        ((10, 10), False),
    ]
    for hidden, biased in (*nets, ((10,), False), ((100,), False)):
        for method in ("pbp", "sspbp"):
            rows = {
                name: published(name, method=method, hidden=hidden, biased=biased) for name in PAPER
            }
            assert rows.pop("energy") is None
            assert all(row.rmse.mean > 0 and row.log_density.error >= 0 for row in rows.values())
    assert published("yacht", method="pbp", hidden=(5, 5), biased=True) is None
