"""`python -m benchmarks early-stopping`: its table and the file of figures."""

from benchmarks.commands import early_stopping
from benchmarks.early_stopping import OURS, PAPER


def test_the_table_has_the_means_of_the_splits(capsys):
    def row(rmse_eV):
        return {"rmse_eV": rmse_eV, "epochs": 30.0, "cpu_seconds": 2.0}

    sides = {OURS: [row(0.4), row(0.6)], PAPER: [row(0.5), row(0.9)]}
    settings = {"n": 100, "n_test": 50, "splits": 2, "seed": 0}
    early_stopping.print_sides({"settings": settings, "sides": sides})
    output = capsys.readouterr().out
    assert "0.7000" in output and "+0.2000 +- 0.1000" in output
    assert "100 molecules of the demo, 50 for testing, means of 2 splits" in output


def test_too_many_molecules_fail_with_one_message(run):
    result = run("early-stopping", "--n", 10_000)
    assert result.exit_code == 1 and "Give a smaller --n." in result.output
