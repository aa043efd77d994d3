"""The command that repeats a run is one that the shell accepts, with the settings of the run."""

import shlex

import pytest
import typer

from bandgap.cli import app
from bandgap.cli.inputs import parse_settings
from bandgap.jobs.repeating import predict_command, serve_command, transfer_command

CONFIG = {"source": "demo", "n": 40, "n_test": 10, "seed": 3}


def parsed(command):
    """What the command line makes of a command, without running it."""
    program, name, *words = shlex.split(command.replace("\\\n", ""))
    assert program == "bandgap"
    found = typer.main.get_command(app).commands[name]
    return found.make_context(name, words).params


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"lam": 0.5, "standardise": "target"}, {"lam": 0.5, "standardise": "target"}),
        ({"sampler": {"warmup": 40, "draws": 50}}, {"sampler": {"warmup": 40, "draws": 50}}),
        ({"hidden": [64, 32], "note": "it's mine"}, {"hidden": [64, 32], "note": "it's mine"}),
    ],
)
def test_transfer_command_has_the_settings_of_the_run(settings, expected):
    own = {
        "baseline": "gap_pbe_eV",
        "device": "cuda",
        "conformal_share": 0.15,
        "by_formula": True,
        "test_known": True,
        "levels": "GFN1-xTB",
    }
    config = {**CONFIG, "settings": settings, **own}
    found = parsed(transfer_command("fine_tune", config, level_of_theory="PBE; D3"))
    assert (found["method"], found["n"], found["n_test"], found["seed"]) == ("fine_tune", 40, 10, 3)
    assert (found["device"], found["conformal_share"], found["level_of_theory"]) == ("cuda", 0.15, "PBE; D3")
    plain = parsed(transfer_command("nptl", CONFIG))
    assert found["by_formula"] and not plain["by_formula"]
    assert found["test_known"] and not plain["test_known"]
    assert (found["levels"], plain["levels"]) == ("GFN1-xTB", None)  # none of a method that is named
    assert (found["baseline_column"], plain["baseline_column"]) == ("gap_pbe_eV", None)
    assert parse_settings(list(found["settings"])) == expected
    assert str(found["source"]) == "demo" and str(found["out"]) == "RUN"


def test_run_without_a_source_says_so():
    assert str(parsed(transfer_command("kernel_ridge", CONFIG | {"source": "none"}))["source"]) == "none"


def test_source_of_a_workspace_has_a_placeholder():
    assert str(parsed(transfer_command("nptl", CONFIG | {"source": "0f3c-11"}))["source"]) == "SOURCE"


def test_predict_command_reads_the_folder_of_the_transfer():
    assert str(parsed(predict_command())["model"]) == str(parsed(transfer_command("nptl", CONFIG))["out"])


def test_predict_command_of_a_run_with_a_baseline_names_its_table():
    assert str(parsed(predict_command({"baseline": "gap_pbe_eV"}))["baselines"]) == "BASELINES.csv"
    assert parsed(predict_command())["baselines"] is None


def test_serve_command_serves_the_folder_of_the_transfer():
    found = parsed(serve_command())
    assert [str(path) for path in found["model"]] == [str(parsed(transfer_command("nptl", CONFIG))["out"])]
    assert (found["host"], found["token_file"]) == ("127.0.0.1", None)
