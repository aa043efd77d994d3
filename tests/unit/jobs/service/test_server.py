"""`bandgap serve` as a separate process: address, messages, end by signals."""

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime

import httpx
import pytest

import bandgap
from bandgap.jobs.service.models import load_models
from bandgap.jobs.service.tokens import VARIABLE
from bandgap.predictions.table import COLUMNS, DOMAIN_P, P_METAL
from bandgap.predictions.window import WINDOW_COLUMNS
from bandgap.structures.formats import FORMATS
from tests.unit.jobs.service.conftest import Runs


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_command_serves_until_it_is_told_to_end(runs: Runs) -> None:
    start = "from bandgap.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        start,
        "serve",
        f"--model={runs.conformal}",
        f"--model={runs.cheap}",
        "--port=0",
    ]
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first, second = process.stdout.readline(), process.stdout.readline()
    match = re.match(
        r"bandgap serves conformal, cheap at (http://127\.0\.0\.1:\d+)  \(GET /docs; Ctrl-C", first
    )
    assert match is not None and second.startswith("No token: only this machine is let in.")
    with httpx.Client(base_url=match.group(1)) as client:
        assert client.get("/version").json() == {"bandgap": bandgap.__version__}
        assert client.get("/health").headers.get("server") is None
        models = {model["name"]: model for model in client.get("/models").json()["models"]}
    assert list(models) == ["conformal", "cheap"]
    assert models["conformal"]["intervals"] == ["prediction", "credible", "conformal"]
    assert models["conformal"]["fingerprint"] != models["cheap"]["fingerprint"]
    assert datetime.fromisoformat(models["cheap"]["created"]).tzinfo is UTC
    assert models["cheap"]["baseline"] == "gap_pbe_eV" and models["cheap"]["elements"] == [
        "H",
        "C",
        "O",
    ]
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_description_shows_the_columns_of_the_csv_and_loads_nothing_from_afar(
    client: httpx.Client,
) -> None:
    schema = client.get("/openapi.json").json()
    row = schema["components"]["schemas"]["Row"]["properties"]
    assert tuple(row) == (*COLUMNS, P_METAL, DOMAIN_P, *WINDOW_COLUMNS)
    assert all(column["description"] for column in row.values())
    assert set(schema["paths"]) == {"/health", "/version", "/models", "/predict"}
    assert all(form.name.split()[0] in schema["info"]["description"] for form in FORMATS.values())
    accepted = schema["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]["anyOf"]
    assert [form.get("required") for form in accepted] == [["structures"], None, None, None]
    assert {"401", "413", "422", "429", "503"} <= set(
        schema["paths"]["/predict"]["post"]["responses"]
    )
    page = client.get("/docs").text
    assert (
        "POST /predict" in page
        and "?level" in page
        and "//" not in page.replace("<!doctype html>", "")
    )
    assert (
        "width=device-width" in page and "white-space:pre-wrap" in page
    )  # a narrow screen shows all of it


def test_runs_of_one_name_are_told_apart(runs: Runs) -> None:
    assert list(load_models([runs.conformal, runs.cheap, runs.conformal])) == [
        "conformal",
        "cheap",
        "conformal-2",
    ]
