"""A service on a socket with small runs, an HTTP client, and the command line to compare with."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bandgap.cli import app as commands
from bandgap.jobs.service.app import build_app
from bandgap.jobs.service.limits import ServiceLimits
from bandgap.jobs.service.models import load_models
from bandgap.jobs.service.server import LOOPBACK, listening_socket, make_server
from bandgap.predictions.table import read_predictions_csv
from tests.transfers import transfer_labelled
from tests.unit.conftest import gaps_of, make_records

LIMITS = ServiceLimits(max_body_bytes=200_000, max_structures=50, max_atoms=200, seconds=30)
SETTINGS = {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 12}}
Predict = Callable[..., pd.DataFrame]


@dataclass(frozen=True)
class Runs:
    """Folders of small runs: Bayesian, with held-back structures, with a baseline."""

    bayesian: Path
    conformal: Path
    cheap: Path

    @property
    def folders(self) -> list[Path]:
        return [self.bayesian, self.conformal, self.cheap]


@pytest.fixture(scope="package")
def runs(source_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Three runs on 40 labelled molecules; tests must not change them."""
    records = make_records(40, seed=7, prefix="labelled")
    gaps = gaps_of(records, seed=8, shift=-0.5)
    folder = tmp_path_factory.mktemp("runs")
    common = {"n": 32, "n_test": 8, "seed": 5, "device": "cpu", "level_of_theory": "made up"}
    short = {"training": {"max_epochs": 10, "batch_size": 8}}
    bayesian = transfer_labelled(
        source_folder,
        records,
        gaps,
        method="btl_pcp_pe",
        settings=SETTINGS,
        **common,
        out=folder / "bayesian",
    )
    conformal = transfer_labelled(
        source_folder,
        records,
        gaps,
        method="fine_tune",
        settings=short,
        conformal_share=0.65,
        **common,
        out=folder / "conformal",
    )
    cheap = transfer_labelled(
        source_folder,
        records,
        gaps,
        method="fine_tune",
        settings=short,
        baseline="gap_pbe_eV",
        baseline_eV=0.8 * gaps,
        **common,
        out=folder / "cheap",
    )
    return Runs(bayesian, conformal, cheap)


@contextlib.contextmanager
def serving(
    folders: list[Path],
    *,
    token: str | None = None,
    limits: ServiceLimits = LIMITS,
    **proxy: Any,
) -> Iterator[str]:
    """Serve runs on a free port of this machine, in a thread, and yield the address."""
    server = make_server(
        build_app(load_models(folders), token=token, limits=limits, hosts=LOOPBACK, **proxy)
    )
    sock = listening_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        sock.close()


@pytest.fixture(scope="package")
def address(runs: Runs) -> Iterator[str]:
    """Address of a service of the three runs, without a token."""
    with serving(runs.folders) as service_address:
        yield service_address


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    """A client of that service."""
    with httpx.Client(base_url=address, timeout=60) as http_client:
        yield http_client


@pytest.fixture
def predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Predict:
    """`bandgap predict` of a run and files, as the table that it wrote."""
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path / "home"))

    def call(model: Path, *files: Path, **options: object) -> pd.DataFrame:
        words = [f"--structures={file}" for file in files] + [
            f"--{key}={value}" for key, value in options.items()
        ]
        out = tmp_path / "out.csv"
        done = CliRunner().invoke(
            commands,
            ["predict", f"--model={model}", *words, f"--out={out}"],
            catch_exceptions=False,
        )
        assert done.exit_code == 0
        return read_predictions_csv(out)

    return call


def rows(answer: httpx.Response) -> pd.DataFrame:
    """The rows of an answer as the table that the CSV is read to."""
    assert answer.status_code in (200, 422), answer.text
    frame = pd.DataFrame(answer.json()["rows"])
    return frame.assign(
        **{name: frame[name].astype(float) for name in ("mean_eV", "sd_eV", "lower_eV", "upper_eV")}
    )


def assert_same(answer: httpx.Response, table: pd.DataFrame) -> None:
    """Assert that a response has the values of a table of `bandgap predict`, without the files."""
    answer_rows = rows(answer)
    assert list(answer_rows.columns) == list(table.columns) and len(answer_rows) == len(table)
    for name in answer_rows.columns:
        if name == "file":
            assert [Path(a).name for a in answer_rows[name]] == [Path(b).name for b in table[name]]
        elif answer_rows[name].dtype == float:
            np.testing.assert_array_equal(answer_rows[name], table[name])
        else:
            assert list(answer_rows[name]) == list(table[name])
