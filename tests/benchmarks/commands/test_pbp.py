"""`python -m benchmarks uci`, `messages` and `pbp`: options, tables and the file of figures."""

import json

import pytest

from benchmarks.commands import pbp
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


def test_uci_shows_published_figures_only_for_the_published_network(run, folder):  # noqa: F811
    short_run = (
        "--data",
        folder,
        "--set",
        "yacht",
        "--passes",
        2,
        "--splits",
        1,
        "--likelihood",
        "sep",
        "--hidden",
        "5-5",
    )
    result = run("uci", *short_run)
    assert result.exit_code == 0, result.output
    assert "2015" not in result.output and "counted" not in result.output
    assert "pbp, hidden 5-5, with biases, sep, 2 passes" in result.output


@pytest.mark.parametrize(
    ("options", "printed", "absent"),
    [
        ((), ("RMSE 2015", "1.015", "-1.634", "1.344 +- 0.061", "-1.767 +- 0.027"), "1.367"),
        (("--method", "sspbp"), ("1.367 +- 0.071", "-1.775 +- 0.031"), "2015 "),
        (("--hidden", "10-10"), ("1.064 +- 0.072", "-1.714 +- 0.054"), "2015 "),
        (("--hidden", "100", "--no-biases"), ("RMSE 2022", "log density 2022"), "2015 "),
    ],
    ids=["paper and thesis", "sspbp", "two layers", "no biases"],
)
def test_uci_shows_published_figures_of_network_and_method(
    run,
    folder,  # noqa: F811
    options,
    printed,
    absent,
):
    result = run("uci", "--data", folder, "--set", "yacht", "--splits", 1, *options)
    assert result.exit_code == 0, result.output
    table = result.output.split("pbp, hidden")[0]
    assert (
        all(text in table for text in printed)
        and absent not in table
        and "nan" not in result.output
    )
    assert "2022: the thesis, means of five other splits of 80/20" in result.output


def test_messages_prints_figures_of_both_tables_of_the_thesis(run, folder, tmp_path):  # noqa: F811
    file = tmp_path / "messages.json"
    short_run = ("--set", "yacht", "--passes", 1, "--draws", 500, "--json", file)
    result = run("messages", "--data", folder, *short_run)
    assert result.exit_code == 0, result.output
    assert (
        "(49.86)" in result.output
        and "(0.066)" in result.output
        and "N(1, 1) N(-3, 1)" in result.output
    )
    assert (
        "nan" not in result.output
        and "5-5-5" in result.output
        and "(0.976)" in result.output
        and "of one split of yacht" in result.output
    )
    written = json.loads(file.read_text())
    assert len(written["distances"]) == 5 and len(written["shares"]) == 6


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


def test_uci_with_invalid_widths_or_set_is_refused(run, folder):  # noqa: F811
    result = run("uci", "--data", folder, "--hidden", "50,50")
    assert result.exit_code == 1
    assert (
        "--hidden is '50,50'. Accepted: whole numbers joined by -, as 50 or 10-10." in result.output
    )
    result = run("uci", "--data", folder, "--set", "protein")
    assert result.exit_code == 1 and "no set 'protein'" in result.output


def test_table_of_the_demo_shows_medians_and_the_ratio_to_a_random_start(capsys):
    def row(rmse):
        return {
            "rmse_eV": rmse,
            "crps_eV": 0.2,
            "coverage": 0.9,
            "weights_share": 0.1,
            "seconds": 1.0,
            "cpu_seconds": 0.5,
        }

    sides = {"pbp": [row(0.3), row(0.4), row(0.9)], "PBP from a random start": [row(0.8)] * 3}
    pbp.print_pbp({"n": 300, "n_test": 700, "splits": 3, "weights": 169_729, "sides": sides})
    text = " ".join(capsys.readouterr().out.split())
    assert "0.400" in text
    assert "RMSE from the source is 0.50 times that from a random start" in text
    assert "A row takes 1.7 ms for 169,729 weights" in text  # half a second over 300 rows
