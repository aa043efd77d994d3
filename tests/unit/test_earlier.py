"""Sources, runs, workspaces and checkpoints that an earlier version wrote still open, and still say the same.

The files are those of commit 54592be, before its modules were moved; `tests/earlier/make_earlier.py` has made them.
"""

import csv
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

import bandgap
from bandgap.cli import app
from bandgap.evaluation.calibrators import load_calibrator, measured_part
from bandgap.evaluation.heldout import figures_at, load_heldout
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import Kept, kept, start_again
from bandgap.jobs.rows import RunRow
from bandgap.jobs.sources import source_path, sources_of
from bandgap.jobs.store import JobStore
from bandgap.jobs.tasks.transfer import transfer
from bandgap.jobs.worker import work_all
from bandgap.predictions.table import NUMBER_COLUMNS
from bandgap.sources.overlap import load_known
from bandgap.sources.sets import open_sources
from bandgap.storage.manifests import read_manifest
from bandgap.structures import StructureRecord
from bandgap.transfer import get_method
from tests.app.conftest import MAIN, texts
from tests.earlier.arithmetic import arithmetic

ARCHIVE = Path(__file__).resolve().parents[1] / "earlier" / "written_by_54592be.zip"
with zipfile.ZipFile(ARCHIVE) as _archive:
    ABOUT: dict[str, Any] = json.loads(_archive.read("about.json"))
RUNS: dict[str, Any] = ABOUT["runs"]
EXTRAS = ("features", "fisher", "variational", "snapshots")
SAME_EV = 2e-3  # as in the self-check of a stored model: another machine differs by less
CLOSE_EV = 0.05  # of predictions by chains whose last draws another machine has drawn


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all files; tests must not change it."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def home(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A copy of the workspace's data directory, which is the one in use."""
    folder = Path(shutil.copytree(earlier / "workspace", tmp_path / "home"))
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    return Home(folder)


def structures(earlier: Path, name: str) -> list[StructureRecord]:
    return list(bandgap.read_structures((earlier / "structures" / name).read_bytes(), name))


def labelled(earlier: Path, name: str) -> tuple[list[StructureRecord], np.ndarray]:
    records = structures(earlier, name)
    return records, np.array([record.info["gap_eV"] for record in records], dtype=np.float64)


def assert_same_table(found: str, expected: Path, *, within_eV: float = SAME_EV) -> None:
    """Texts are the same, and numbers differ by less than `within_eV`."""
    rows, wanted = (list(csv.DictReader(text.splitlines())) for text in (found, expected.read_text(encoding="utf-8")))
    assert [set(row) for row in rows] == [set(row) for row in wanted]
    for row, other in zip(rows, wanted, strict=True):
        for name, value in row.items():
            if name in NUMBER_COLUMNS and other[name]:
                assert float(value) == pytest.approx(float(other[name]), abs=within_eV), (row["id"], name)
            else:
                assert value == other[name], (row["id"], name)


# -- sources


def test_source_of_one_set_opens_with_all_its_parts(earlier: Path) -> None:
    source = bandgap.load_source(earlier / "sources/plain")
    assert source.extras == EXTRAS
    assert (source.card.n_structures, source.card.elements) == (56, ("C", "H", "N", "O"))
    assert source.network.hidden == (8, 4) and source.snapshots is not None and source.snapshots.rank == 3
    known = load_known(earlier / "sources/plain")
    assert known is not None and len(known.structures) == 56


def test_source_of_several_sets_opens_with_every_network_and_output(earlier: Path) -> None:
    stored = open_sources(earlier / "sources/joint")
    assert stored.heads == ("as they are", "moved") and stored.sizes == {"as they are": 28, "moved": 28}
    assert stored.training.steps == 200
    members = stored.load()
    assert [{name: source.extras for name, source in m.items()} for m in members] == [
        {"as they are": EXTRAS, "moved": EXTRAS}
    ] * 2
    descriptor = members[0]["moved"].descriptor
    assert descriptor.roots and descriptor.size and descriptor.neutral


def test_transfer_of_an_earlier_source_with_the_settings_of_an_earlier_run_gives_its_predictions(
    earlier: Path, tmp_path: Path
) -> None:
    wanted = read_manifest(earlier / "runs/last_layer_ridge", kind="run")
    records, gaps = labelled(earlier, "crystals.extxyz")
    out = bandgap.transfer_run(
        earlier / "sources/plain",
        records,
        gaps,
        method=wanted["method"],
        n=wanted["n"],
        n_test=len(wanted["split"]["test"]),
        seed=wanted["seed"],
        level_of_theory=wanted["level_of_theory"],
        settings=wanted["config"],
        device="cpu",
        out=tmp_path / "run",
    )
    made = read_manifest(out, kind="run")
    assert (made["split"], made["data"], made["source"]["overlap"]) == (
        wanted["split"],
        wanted["data"],
        wanted["source"]["overlap"],
    )
    table = bandgap.predict_run(out, structures(earlier, "new.extxyz")).to_csv(level=0.9)
    assert_same_table(table, earlier / "predictions/last_layer_ridge_as_trained.csv", within_eV=0.01)


# -- runs


def test_earlier_runs_have_posteriors_of_every_kind_of_that_version() -> None:
    kinds = {run["kind"] for run in RUNS.values()}
    alone = {"network", "scaled_network", "last_layer", "feature_gp", "conformal", "gaussian_process"}
    assert kinds == {*alone, "mixture"}


@pytest.mark.parametrize("name", RUNS)
def test_earlier_run_opens_with_its_self_check_and_predicts_what_it_did(earlier: Path, name: str) -> None:
    if RUNS[name]["levels"] != "none":
        pytest.importorskip("tblite")
    folder = earlier / "runs" / name
    run = bandgap.load_run(folder)
    assert run.posterior.kind == RUNS[name]["kind"]
    get_method(run.manifest["method"]).configure(run.manifest["config"])
    new = structures(earlier, "new.extxyz")
    for table, shown in RUNS[name]["tables"].items():
        how = {"level": shown["level"], "interval": shown["interval"]}
        found = bandgap.predict_run(folder, new, calibrated=shown["calibrated"], **how)
        assert found.status[-1] == "refused"
        assert_same_table(found.to_csv(level=how["level"], kind=how["interval"]), earlier / "predictions" / table)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "feature_gp_of_levels"])
def test_held_out_structures_of_an_earlier_run_give_the_figures_of_its_manifest(earlier: Path, name: str) -> None:
    manifest = read_manifest(earlier / "runs" / name, kind="run")
    heldout = load_heldout(earlier / "runs" / name, manifest)
    assert len(heldout) == len(manifest["split"]["test"]) >= 3
    found = figures_at(heldout, 0.95)
    assert found["rmse_eV"] == pytest.approx(manifest["metrics"]["rmse_eV"])
    assert found["width_eV"] == pytest.approx(manifest["metrics"]["width_95_eV"])


@pytest.mark.parametrize(
    ("name", "kind", "n"), [("last_layer_ridge", "variance", 20), ("gaussian_process", "conformal", 4)]
)
def test_calibrator_of_an_earlier_run_opens(earlier: Path, name: str, kind: str, n: int) -> None:
    folder = earlier / "runs" / name
    calibrator = load_calibrator(folder)
    assert calibrator is not None
    assert (calibrator.kind, len(calibrator), calibrator.n_test) == (kind, n, 10)
    heldout = load_heldout(folder, read_manifest(folder, kind="run"))
    assert len(measured_part(heldout, calibrator)) == 10


# -- the workspace

WORKSPACE: dict[str, Any] = ABOUT["workspace"]


def run_of(home: Home, which: str) -> RunRow:
    run = Library(home).run(WORKSPACE["id"], WORKSPACE[which])
    assert run is not None
    return run


def state_of(home: Home, job_id: str) -> str:
    job = JobStore(home).job(WORKSPACE["id"], job_id)
    assert job is not None
    return f"{job.kind} {job.state} {job.error}".strip()


def test_earlier_workspace_lists_its_data_sets_runs_and_jobs(home: Home) -> None:
    library, jobs, workspace = Library(home), JobStore(home), WORKSPACE["id"]
    assert [d.name for d in library.datasets(workspace)] == ["uploaded.extxyz", "molecules.extxyz"]
    assert [d.name for d in library.datasets(workspace, purpose="prediction")] == ["new.extxyz"]
    counts = library.counts(WORKSPACE["crystals"])
    assert counts == {"all": 12, "ready": 12, "warning": 0, "refused": 0, "labelled": 12, "usable": 12}
    (file,) = library.files(WORKSPACE["crystals"])
    assert len(home.read_upload(file.content)) == file.n_bytes
    assert [run.method for run in library.runs(workspace)] == ["btl_pcp_pe", "last_layer_ridge"]
    assert [(job.kind, job.state) for job in jobs.jobs(workspace)] == [
        ("transfer", "interrupted"),
        ("predict", "finished"),
        ("transfer", "finished"),
        ("train_source", "finished"),
        ("check", "finished"),
        ("check", "finished"),
    ]
    assert "fine_tune" in library.catalogue("method")


def test_source_model_trained_in_an_earlier_workspace_is_its_own(home: Home) -> None:
    library = Library(home)
    (found,) = sources_of(JobStore(home), library, WORKSPACE["id"]).values()
    assert (found.id, found.title, found.problem) == (WORKSPACE["source"], "small molecules", "")
    bandgap.load_source(source_path(library, WORKSPACE["id"], found.id))


def test_vectors_in_the_cache_of_an_earlier_workspace_are_found(earlier: Path, home: Home) -> None:
    cache = bandgap.DescriptorCache(home.cache)
    before = len(cache)
    source = bandgap.load_source(home.source_folder(WORKSPACE["source"]))
    records = [*structures(earlier, "molecules.extxyz"), *structures(earlier, "uploaded.extxyz")]
    found = bandgap.featurize(records, source.descriptor, cache=cache)
    assert len(cache) == before >= len(records) == found.features.shape[0]


def page(name: str, **choices: str) -> AppTest:
    """Open a page of the workspace as its address would."""
    at = AppTest.from_file(str(MAIN), default_timeout=30)
    at.query_params["ws"] = WORKSPACE["id"]
    for key, value in choices.items():
        at.query_params[key] = value
    at.run()
    if name != "home":
        at.switch_page(f"views/{name}.py").run()
    assert not at.exception
    return at


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("home", "1 prediction made so far"),
        ("data", "**12 structures**: 12 ready; 12 have a gap and can be learned from."),
        ("sources", "504 features, for H C N O"),
        ("train", "The transfer is finished after"),
        ("compare", "There is 1 finished run so far."),
        ("posterior", "On 3 held-out structures the error is **"),
        ("calibration", "of 3 known gaps fall in their 95 % prediction interval"),
        ("predict", "**4 structures predicted**; 1 of them with a warning; 1 refused."),
        ("about", "This workspace takes"),
    ],
)
def test_page_of_an_earlier_workspace_shows_its_finished_run(home: Home, name: str, sentence: str) -> None:
    at = page(name, run=WORKSPACE["run"])
    assert sentence in texts(at)
    assert not at.error


def test_page_of_an_interrupted_earlier_run_offers_to_go_on(home: Home) -> None:
    at = page("train", run=WORKSPACE["interrupted"])
    assert "Kept: 100 of 160 iterations of every chain." in texts(at)
    next(button for button in at.button if button.label == "Resume from the last checkpoint").click().run()
    assert state_of(home, run_of(home, "interrupted").job) == "transfer queued"


def test_prediction_with_an_earlier_run_is_made_again_by_the_worker(earlier: Path, home: Home) -> None:
    jobs, first = JobStore(home), WORKSPACE["prediction"]
    asked = jobs.job(WORKSPACE["id"], first)
    assert asked is not None
    again = jobs.submit(WORKSPACE["id"], "predict", title="again", payload=asked.payload, subject=asked.subject)
    assert work_all(home) == 1 and state_of(home, again.id) == "predict finished"
    made, before = (home.prediction_folder(WORKSPACE["run"], job) / "predictions.csv" for job in (again.id, first))
    assert_same_table(made.read_text(encoding="utf-8"), before)


# -- checkpoints

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

    On a machine that rounds as the one did that wrote them, all draws are those of the run without a break, bit by bit.
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
            np.testing.assert_array_equal(made[name].numpy(), value.numpy())


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
