"""The warning on a scale whose posterior equals its prior: page Result, manifest and shell."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.cli.report import print_run
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, texts
from tests.app.small_runs import train_source

Visit = Callable[..., AppTest]
SAID = "The posterior of the scale x equals its prior"


@pytest.mark.parametrize(("rate", "is_said"), [(1e6, True), (1e-3, False)])
def test_scale_that_equals_its_prior_is_reported_on_page_in_manifest_and_in_shell(
    visit: Visit,
    workspace: Workspace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rate: float,
    is_said: bool,
) -> None:
    source = train_source(tmp_path / "source")
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    dataset = workspace.add_labelled()
    run, job = workspace.add_run(dataset, method="last_layer_pcp", settings={"lam": rate})
    work_all(workspace.home)
    ended = workspace.jobs.job(workspace.id, job.id)
    assert ended is not None and ended.state == "finished", ended
    assert (SAID in texts(visit("result", run=run, tab="layers"))) == is_said
    folder = workspace.home.run_folder(run)
    manifest = json.loads((folder / "manifest.json").read_text())
    (scale,) = manifest["diagnostics"]["scales"]
    assert scale["scale"] == "x" and scale["equals_prior"] == is_said
    print_run(folder, manifest)
    assert (f"Note: {SAID}" in capsys.readouterr().out) == is_said
