"""Truncated files of finished jobs: pages and jobs name the damage without a traceback."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace
from tests.app.worlds import Owned
from tests.proof.storm import SEED

Visit = Callable[..., AppTest]

# Pages that show an object of each kind.
SHOWN = {
    "run": ("train", "compare", "result", "predict"),
    "prediction": ("predict",),
    "dataset": ("data",),
    "source": ("sources", "train"),
}


@pytest.fixture
def owned(worlds: tuple[Owned, Owned]) -> Owned:
    return worlds[0]


@pytest.fixture
def workspace(owned: Owned) -> Workspace:
    return owned.workspace


def folders(owned: Owned) -> dict[str, Path]:
    home = owned.workspace.home
    return {
        "run": home.run_folder(owned.runs[0]),
        "prediction": home.prediction_folder(owned.runs[0], owned.prediction),
        "dataset": home.dataset_folder(owned.dataset),
        "source": home.source_folder(owned.source),
    }


def predicted(owned: Owned, run: str) -> str:
    """Predict the data set with a run as the worker would; return the error or ""."""
    workspace = owned.workspace
    job = workspace.ask_prediction(run, owned.dataset)
    work_all(workspace.home)
    ended = workspace.jobs.job(workspace.id, job.id)
    assert ended is not None and ended.state in ("finished", "failed")
    return ended.error


@pytest.mark.parametrize("kind", list(SHOWN))
def test_truncated_file_is_named_on_pages_and_by_jobs(
    kind: str, visit: Visit, owned: Owned
) -> None:
    sys.stdout.write(f"seed {SEED}; set BANDGAP_PROOF_SEED for other lengths\n")
    draw = random.Random(f"{SEED} {kind}")
    for path in sorted(p for p in folders(owned)[kind].iterdir() if p.is_file()):
        content = path.read_bytes()
        n_bytes = draw.randrange(len(content))
        sys.stdout.write(f"{path.name} keeps {n_bytes:,} of {len(content):,} bytes\n")
        path.write_bytes(content[:n_bytes])
        st.cache_resource.clear()
        st.cache_data.clear()
        for name in draw.sample(SHOWN[kind], min(2, len(SHOWN[kind]))):
            assert not visit(name, **owned.choices).exception, name
        if kind == "run":
            error = predicted(owned, owned.runs[0])
            assert "bandgap does not know" not in error, error
            assert not error or str(path.parent.name) in error, error
        path.write_bytes(content)


def test_table_truncated_at_the_end_of_a_line_is_not_shown_shortened(
    visit: Visit, owned: Owned
) -> None:
    path = folders(owned)["run"] / "predictions.csv"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    st.cache_resource.clear()
    page = visit("result", **owned.choices)
    assert not page.error and not page.exception
    assert "10 held-out" in " ".join(text.value for text in page.markdown)
    (held_out,) = [table.value for table in page.dataframe if "gap_eV" in table.value]
    assert len(held_out) == 10 and held_out["mean_eV"].notna().all()
