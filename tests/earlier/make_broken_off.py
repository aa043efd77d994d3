"""A workspace of an earlier version with an interrupted transfer, and what the same left when the shell was killed."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from safetensors import safe_open

from bandgap.foundation.progress import Update
from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.child import JobProgress
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.starting import Started, start_transfer
from bandgap.jobs.store import JobStore
from bandgap.jobs.tasks.transfer import transfer
from bandgap.jobs.worker import work_all
from tests.earlier.make_structures import LEVEL_OF_THEORY, read

# the transfer that is interrupted in the workspace and killed in the shell: two groups of two chains, the first of
# which has ended by then
BROKEN_OFF: dict[str, Any] = {"chains": 4, "warmup": 60, "draws": 100, "keep": 40, "max_steps": 4}
ITERATIONS = 160  # of a chain
N, N_TEST = 9, 3
KILLED_AFTER, EVERY = 140, 20  # iterations of the second group in the shell
INTERRUPTED_AFTER = 110  # iterations of the second group in the workspace, whose worker writes every 100


class KilledError(RuntimeError):
    """As the end of the worker's process."""


# -- the dashboard's workspace


def make_workspace(folder: Path, structures: Path) -> dict[str, Any]:
    """Fill a data directory as a visitor and the worker would; return the ids of what is in it."""
    home = Home(folder)
    folder.mkdir()
    library, jobs, workspace = Library(home), JobStore(home), str(uuid.uuid4())
    register_methods(library)

    def finished(kind: str, subject: str, **payload: Any) -> str:
        job = jobs.submit(workspace, kind, title=kind, payload=payload, subject=subject)
        work_all(home)
        return done(job.id)

    def done(job_id: str) -> str:
        ended = jobs.job(workspace, job_id)
        assert ended is not None and ended.state == "finished", ended
        return job_id

    def uploaded(name: str, purpose: Literal["training", "prediction"] = "training") -> str:
        data = (structures / name).read_bytes()
        return library.add_dataset(workspace, name, purpose=purpose, files=[(name, data)]).id

    def labelled(name: str) -> str:
        dataset = uploaded(name)
        finished("check", dataset, dataset=dataset)
        gaps = read(structures / name)[1]
        labels = {"source": f"gap_eV of {name}", "matched": len(gaps)}
        library.save_gaps(dataset, gaps, labels=labels, level_of_theory=LEVEL_OF_THEORY)
        return dataset

    source, molecules, crystals = str(uuid.uuid4()), labelled("molecules.extxyz"), labelled("uploaded.extxyz")
    trained = {
        "name": "small molecules",
        "dataset": molecules,
        "hidden": [8, 4],
        "max_epochs": 40,
        "licence": "CC0-1.0",
    }
    finished("train_source", source, source=source, seed=0, device="cpu", **trained)

    def started(method: str, settings: Mapping[str, Any]) -> Started:
        split = {"n": N, "n_test": N_TEST, "seed": 0, "conformal_share": 0.0, "by_formula": False}
        config = {"source": source, "method": method, "device": "cpu", "settings": settings, **split}
        dataset = library.dataset(workspace, crystals)
        return start_transfer(jobs, library, dataset, config=config, title=f"{method}, n = {N}")

    transferred = started("last_layer_ridge", {"chains": 2, "draws": 50})
    work_all(home)
    done(transferred.job.id)
    new = uploaded("new.extxyz", "prediction")
    prediction = finished("predict", new, run=transferred.run, dataset=new, name="new.extxyz")
    broken = started("btl_pcp_pe", {"sampler": BROKEN_OFF})
    interrupt(home, jobs)
    return {
        "id": workspace,
        "source": source,
        "molecules": molecules,
        "crystals": crystals,
        "run": transferred.run,
        "prediction": prediction,
        "interrupted": broken.run,
        "kept": [100, ITERATIONS],
    }


def interrupt(home: Home, jobs: JobStore) -> None:
    """Do the queued transfer until the worker is killed, and let the next worker find it."""
    job = jobs.claim("a worker that was killed")
    assert job is not None
    reported = JobProgress(jobs, job.id)

    def killed(update: Update) -> None:
        reported(update)
        if update.total == 2 * ITERATIONS and update.done >= ITERATIONS + INTERRUPTED_AFTER:
            reported.flush()
            raise KilledError

    try:
        transfer(job, home, killed)
        raise AssertionError("the transfer came to its end")
    except KilledError:
        jobs.end_orphans("the next worker")


# -- the shell


def make_shell(folder: Path, source: Path, home: Path) -> dict[str, Any]:
    """Run `bandgap transfer` to its end, and again until it is killed; return its words, but for the folder `--out`."""
    words = [
        "transfer", "--source", str(source), "--structures", "structures/uploaded.extxyz", "--label", "gap_eV",
        "--method", "btl_pcp_pe", "--n", str(N), "--n-test", str(N_TEST), "--checkpoint-every", str(EVERY),
        "--set", f"sampler={json.dumps(BROKEN_OFF)}", "--level-of-theory", LEVEL_OF_THEORY, "--device", "cpu",
    ]  # fmt: skip
    command = [sys.executable, "-c", "from bandgap.cli import main; main()", *words, "--out"]
    settings: dict[str, Any] = {"cwd": folder, "env": {**os.environ, "BANDGAP_HOME": str(home)}}
    subprocess.run([*command, "shell/whole"], check=True, **settings)
    process = subprocess.Popen([*command, "shell/killed"], **settings)
    try:
        while (iteration := iteration_of(folder / "shell/killed/checkpoint/chains-1-2.safetensors")) < KILLED_AFTER:
            assert process.poll() is None, "the transfer came to its end"
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    assert iteration < ITERATIONS and not (folder / "shell/killed/manifest.json").exists()
    return {"words": words, "iteration": iteration, "total": 2 * ITERATIONS}


def iteration_of(path: Path) -> int:
    """Return the iteration that a checkpoint was written after, 0 where there is none."""
    if not path.exists():
        return 0
    with safe_open(path, framework="pt") as file:
        return int(json.loads(file.metadata()["facts"])["iteration"])
