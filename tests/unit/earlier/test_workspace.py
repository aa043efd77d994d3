"""The workspace of an earlier version opens in every page, and its work goes on."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import bandgap
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.sources import source_path, sources_of
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from tests.app.conftest import MAIN, texts
from tests.earlier.written import WORKSPACE, assert_same_table, run_of, state_of, structures


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
