"""The command that repeats a run is valid and has the run's request."""

import shlex

import pytest
import typer

from bandgap.cli import app
from bandgap.cli.request_options import parsed_request
from bandgap.jobs.shell_commands import predict_command, serve_command, stored_command
from bandgap.runs.requests import TransferRequest

REQUEST = TransferRequest(method="nptl", n=40, n_test=10, seed=3)


def transfer_command(source, request, *, level_of_theory=""):
    """Return the command of a run without the names of its files."""
    manifest = {"request": request.to_values(), "level_of_theory": level_of_theory}
    return stored_command(manifest, source=source)


def parsed(command):
    """Return the values that the command line reads from a command, without running it."""
    program, name, *words = shlex.split(command.replace("\\\n", ""))
    assert program == "bandgap"
    click_command = typer.main.get_command(app).commands[name]
    return click_command.make_context(name, words).params


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lam": 0.5, "standardise": "target"},
        {"sampler": {"warmup": 40, "draws": 50}},
        {"hidden": [64, 32], "note": "it's mine"},
    ],
)
def test_transfer_command_asks_for_the_request_of_the_run(settings):
    request = TransferRequest(
        method="fine_tune",
        n=40,
        n_test=10,
        seed=3,
        baseline="gap_pbe_eV",
        device="cuda",
        conformal_share=0.15,
        by_formula=True,
        test_known=True,
        levels="GFN1-xTB",
        settings=settings,
    )
    values = parsed(transfer_command("demo", request, level_of_theory="PBE; D3"))
    assert parsed_request(TransferRequest, values) == request
    assert values["level_of_theory"] == "PBE; D3"
    assert str(values["source"]) == "demo" and str(values["out"]) == "RUN"


def test_predict_command_reads_the_folder_of_the_transfer():
    assert str(parsed(predict_command(REQUEST))["model"]) == str(
        parsed(transfer_command("demo", REQUEST))["out"]
    )


def test_predict_command_of_a_run_with_a_baseline_names_its_table():
    with_baseline = REQUEST.changed(baseline="gap_pbe_eV")
    assert str(parsed(predict_command(with_baseline))["baselines"]) == "BASELINES.csv"
    assert parsed(predict_command(REQUEST))["baselines"] is None


def test_serve_command_serves_the_folder_of_the_transfer():
    values = parsed(serve_command())
    assert [str(path) for path in values["model"]] == [
        str(parsed(transfer_command("demo", REQUEST))["out"])
    ]
    assert (values["host"], values["token_file"]) == ("127.0.0.1", None)
