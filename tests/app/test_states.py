"""Every page in every state of a workspace: no exception, one of its texts, and its size.

`pytest -n 0 -rA tests/app/test_states.py` prints words, controls and figures of every page.
"""

import shutil
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from bandgap.jobs.workspaces import open_workspace
from tests.app.conftest import MAIN, Workspace, empty_workspace, texts
from tests.app.page_sizes import HEADER, UNLIMITED, page_size
from tests.app.small_runs import predict, workspace_with_source
from tests.e2e.browsing import PAGES

DATA = "**60 structures**: 60 ready; 60 have a gap and can be learned from."
NO_RUN = "This page needs a finished run."
ANY_STRUCTURES = "CIF, POSCAR, extXYZ"  # the shipped model needs no run
NO_PAIR = "Comparing needs at least 2 finished runs on the same data"
GUIDE = "How to use bandgap, what its numbers mean, and what its files contain."
ABOUT = "What this server runs on, and its limits."
VERDICT = "Too few held-out structures to judge the run by"
READ_AGAIN = "Other runs are not touched; train this one again."
WITHOUT_RUN = {
    "data": DATA,
    "sources": "Networks that learned gaps from many structures",
    "result": NO_RUN,
    "compare": NO_PAIR,
    "predict": ANY_STRUCTURES,
    "propose": NO_RUN,
    "guide": GUIDE,
    "about": ABOUT,
}
SENTENCES = {
    "empty": {
        **WITHOUT_RUN,
        "home": "Predicting needs no gaps: a shipped model gives those of PBE",
        "data": "Molecular crystals with their gaps, and a source model",
        "sources": "No data set has 50 structures with a gap yet. Upload structures and their gaps",
        "train": "There are no structures yet.",
    },
    "one data set": {
        **WITHOUT_RUN,
        "home": "The known gaps are enough to learn from.",
        "sources": "How long it takes is not known before the first training",
        "train": "39 are learned from, 21 held out for the test, none unused.",
    },
    "running job": {
        **WITHOUT_RUN,
        "home": "R-hat 1.08 · acceptance 0.8",
        "train": "Of 60 labelled structures 39 are learned from",
    },
    "finished run": {
        "home": VERDICT,
        "data": DATA,
        "sources": "**Error on held-out structures**: 0.99 eV",
        "train": "The training is finished after",
        "result": "Too few held-out structures to judge the run by (20 are needed): RMSE 0.32 eV",
        "compare": "Left of zero is better",
        "predict": "**1 structure predicted**; 1 of them with a warning; 1 refused.",
        "propose": "for a band gap in a window. Experimental",
        "guide": GUIDE,
        "about": ABOUT,
    },
    "failed run": {
        **WITHOUT_RUN,
        "home": "The last run failed; the page Train says why.",
        "train": "12 structures hold Br, which the source model never saw.",
    },
    "corrupt artifact": {
        "home": VERDICT,
        "data": DATA,
        "sources": "**Error on held-out structures**: 0.99 eV",
        "train": "The training is finished after",
        "result": READ_AGAIN,
        "compare": READ_AGAIN,
        "predict": READ_AGAIN,
        "propose": "for a band gap in a window. Experimental",
        "guide": GUIDE,
        "about": ABOUT,
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str]:
    """A workspace with a prediction and two runs on the same split, and the id of the first run."""
    example = workspace_with_source(tmp_path_factory)
    dataset = example.add_labelled()
    run, _ = example.add_run(dataset, method="last_layer_ridge")
    example.add_run(dataset, method="last_layer_ols")
    work_all(example.home)
    predict(example, run)
    return example, run


def in_state(state: str, trained: tuple[Workspace, str], home: Path) -> tuple[Workspace, str]:
    """Return a new workspace in this state and the id of its run, if it has one."""
    if state in ("finished run", "corrupt artifact"):
        shutil.copytree(trained[0].home.folder, home, dirs_exist_ok=True)
        workspace = Workspace(trained[0].id, Home(home))
        run = trained[1]
        if state == "corrupt artifact":
            (workspace.home.run_folder(run) / "manifest.json").write_text("{")
        return workspace, run
    workspace = empty_workspace(home)
    if state == "empty":
        open_workspace(workspace.library, workspace.id)
        return workspace, ""
    dataset = workspace.add_labelled()
    if state == "one data set":
        return workspace, ""
    run, job = workspace.add_run(dataset)
    workspace.make_running(job)
    if state == "failed run":
        workspace.jobs.end(
            job.id, "failed", error="12 structures hold Br, which the source model never saw."
        )
    return workspace, run


def test_browser_tests_open_every_page() -> None:
    names = {name or "home" for name in PAGES.values()}
    pages = {path.stem for path in (MAIN.parent / "views").glob("*.py")}
    different = ", ".join(sorted(names ^ pages))
    assert not different, f"PAGES of tests/e2e/browsing.py and app/views differ in {different}."


@pytest.mark.parametrize("state", list(SENTENCES))
def test_every_page_shows_the_state_of_the_workspace_within_its_limits(
    state: str, trained: tuple[Workspace, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    workspace, run = in_state(state, trained, tmp_path)
    pages = {path.stem for path in (MAIN.parent / "views").glob("*.py")}
    undescribed = sorted(pages - set(SENTENCES[state]))
    assert not undescribed, (
        f"no sentence for {', '.join(undescribed)} of app/views in the state {state!r}. Add to "
        "SENTENCES of this file a text that the page shows in this state."
    )
    removed = sorted(set(SENTENCES[state]) - pages)
    assert not removed, f"app/views has no {', '.join(removed)}: remove it from SENTENCES."
    sizes = {}
    for page, sentence in SENTENCES[state].items():
        at = AppTest.from_file(str(MAIN), default_timeout=30)
        at.query_params["ws"] = workspace.id
        if run:
            at.query_params["run"] = run
        if page != "home":
            at.switch_page(f"views/{page}.py")
        at.run()
        assert not at.exception, (page, at.exception)
        text = texts(at)
        assert sentence in text, f"page {page}, state {state!r}: {sentence!r} is not in:\n{text}"
        assert "Traceback" not in text and str(tmp_path) not in text, page
        sizes[page] = page_size(at)
    rows = "\n".join([state, HEADER, *(size.row(page) for page, size in sizes.items())])
    sys.stdout.write(f"{rows}\n")
    too_large = [page for page, size in sizes.items() if size.is_too_large]
    assert set(too_large) <= set(UNLIMITED), rows
