"""Transfers that were broken off in an earlier version go on with this one."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import bandgap
from bandgap.cli import app
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import Kept, kept, start_again
from bandgap.jobs.store import JobStore
from bandgap.jobs.tasks.transfer import transfer
from bandgap.jobs.worker import work_all
from bandgap.storage.manifests import read_manifest
from tests.earlier.arithmetic import arithmetic
from tests.earlier.written import ABOUT, CLOSE_EV, WORKSPACE, labelled, run_of, state_of, structures

SHELL: dict[str, Any] = ABOUT["shell"]
SAME_ARITHMETIC = arithmetic() == ABOUT["arithmetic"]


class KilledError(RuntimeError):
    """As the end of the process."""


def facts_of(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself."""
    with safe_open(path, framework="pt") as file:
        metadata: Mapping[str, str] = file.metadata()
    return {"schema": metadata["schema"], **json.loads(metadata["facts"])}


@contextmanager
def killed_at_first_report() -> Iterator[Progress]:
    """Give what raises when the sampler reports for the first time, and catch it."""

    def killed(update: Update) -> None:
        if update.total == SHELL["total"]:
            raise KilledError

    with pytest.raises(KilledError):
        yield killed


def transferred(earlier: Path, out: Path, *, progress: Progress, every: int) -> None:
    """Do what `bandgap transfer` was killed at."""
    wanted = read_manifest(earlier / "shell/whole", kind="run")
    bandgap.transfer_run(
        earlier / "workspace/sources" / WORKSPACE["source"],
        *labelled(earlier, "uploaded.extxyz"),
        n=wanted["n"],
        n_test=len(wanted["split"]["test"]),
        level_of_theory=wanted["level_of_theory"],
        settings=wanted["config"],
        device="cpu",
        progress=progress,
        out=out,
        checkpoint_every=every,
    )


@pytest.fixture(scope="module")
def facts_here(earlier: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a checkpoint of the same transfer says of itself when it is written here and now."""
    out = tmp_path_factory.mktemp("now")
    with killed_at_first_report() as killed:
        transferred(earlier, out, progress=killed, every=1)
    return facts_of(out / "checkpoint" / "chains-1-1.safetensors")


def as_of_here(folder: Path, facts_here: Mapping[str, Any]) -> None:
    """Give checkpoints the fingerprint that their problem has on this machine.

    It is one of every bit of the problem, so that machines that round in another way do not go on from each other's.
    """
    for path in [] if SAME_ARITHMETIC else sorted(folder.glob("*.safetensors")):
        facts = facts_of(path) | {"problem": facts_here["problem"]}
        metadata = {"schema": facts.pop("schema"), "facts": json.dumps(facts)}
        save_file({name: value.clone() for name, value in load_file(path).items()}, path, metadata=metadata)


def assert_went_on(run: Path, earlier: Path, *, drawn: int) -> None:
    """The run has the draws of its checkpoints, `drawn` of each chain of the second group, and predicts as the whole.

    On a machine that rounds as the one did that wrote them, all draws are those of the run without a break, but for the
    order in which this version adds up what a step of a single chain takes.
    """
    whole = earlier / "shell/whole"
    made, wanted = (load_file(folder / "draws.safetensors") for folder in (run, whole))
    assert {name: value.shape for name, value in made.items()} == {name: value.shape for name, value in wanted.items()}
    for part in ((slice(0, 2), slice(None)), (slice(2, 4), slice(0, drawn))):
        for name in ("sigma", "tau", "theta.2", "theta.3"):
            np.testing.assert_allclose(made[name][part].numpy(), wanted[name][part].numpy(), rtol=1e-4, atol=1e-5)
    new = structures(earlier, "new.extxyz")
    found, before = (bandgap.predict_run(folder, new).mean_eV for folder in (run, whole))
    np.testing.assert_allclose(found, before, atol=CLOSE_EV)
    if SAME_ARITHMETIC:
        for name, value in wanted.items():
            np.testing.assert_allclose(made[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-5)


def test_checkpoints_of_the_same_transfer_say_of_themselves_what_they_did(
    earlier: Path, facts_here: dict[str, Any]
) -> None:
    before = facts_of(earlier / "shell/killed/checkpoint/chains-1-1.safetensors")
    left_out = {"iteration", "acceptance", *(() if SAME_ARITHMETIC else ("problem",))}
    here, then = ({k: v for k, v in facts.items() if k not in left_out} for facts in (facts_here, before))
    assert here == then


def test_transfer_that_was_killed_in_the_shell_goes_on_with_the_same_command(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts_here: dict[str, Any]
) -> None:
    out = Path(shutil.copytree(earlier / "shell/killed", tmp_path / "run"))
    as_of_here(out / "checkpoint", facts_here)
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(earlier)
    words = [*SHELL["words"], "--out", str(out)]
    other = CliRunner().invoke(app, [*words, "--seed", "1"])
    assert other.exit_code == 1 and "belongs to another run" in other.stderr
    ended = CliRunner().invoke(app, words, catch_exceptions=False)
    assert ended.exit_code == 0 and not (out / "checkpoint").exists()
    assert_went_on(out, earlier, drawn=8)


def test_transfer_that_was_killed_in_the_shell_goes_on_after_its_last_iteration(
    earlier: Path, tmp_path: Path, facts_here: dict[str, Any]
) -> None:
    out = Path(shutil.copytree(earlier / "shell/killed", tmp_path / "run"))
    as_of_here(out / "checkpoint", facts_here)
    updates: list[Update] = []
    transferred(earlier, out, progress=updates.append, every=20)
    done = [update.done for update in updates if update.total == SHELL["total"]]
    assert min(done) > SHELL["total"] // 2 + SHELL["iteration"] and max(done) == SHELL["total"]


def test_interrupted_job_of_an_earlier_workspace_goes_on_and_finishes(
    earlier: Path, home: Home, facts_here: dict[str, Any]
) -> None:
    library, jobs, run = Library(home), JobStore(home), run_of(home, "interrupted")
    assert state_of(home, run.job) == "transfer interrupted The worker process ended while this job was running."
    again = start_again(jobs, library, run)
    assert kept(home, again.payload) == Kept(*WORKSPACE["kept"])
    (checkpoints,) = (home.folder / "checkpoints").iterdir()
    as_of_here(checkpoints, facts_here)
    assert work_all(home) == 1 and state_of(home, again.id) == "transfer finished"
    assert not checkpoints.exists()
    assert_went_on(home.run_folder(run.id), earlier, drawn=4)


def test_interrupted_job_of_an_earlier_workspace_goes_on_after_its_last_iteration(
    home: Home, facts_here: dict[str, Any]
) -> None:
    again = start_again(JobStore(home), Library(home), run_of(home, "interrupted"))
    (checkpoints,) = (home.folder / "checkpoints").iterdir()
    as_of_here(checkpoints, facts_here)
    updates: list[Update] = []
    assert transfer(again, home, updates.append)["resumed"]
    done = [update.done for update in updates if update.total == SHELL["total"]]
    assert min(done) > SHELL["total"] // 2 + WORKSPACE["kept"][0]
