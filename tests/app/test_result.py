"""The page Result: verdict, next step, refit on all labels, and the tabs."""

import json
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.quantities import disagreement
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.housekeeping import delete_dataset
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, copied_workspace, labelled, primary, texts

Visit = Callable[..., AppTest]


@pytest.fixture
def workspace(tmp_path, tested_waters, monkeypatch) -> Workspace:
    """A copy of the workspace with one run, which a test may change."""
    return copied_workspace(tested_waters[0], tmp_path, monkeypatch)


@pytest.fixture
def run(workspace, tested_waters) -> str:
    return tested_waters[1]


def change_diagnostics(workspace: Workspace, run: str, **changes: object) -> None:
    """Change what the manifest of a run says of its chains."""
    path = workspace.home.run_folder(run) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["diagnostics"] |= changes
    path.write_text(json.dumps(manifest))


def button(at: AppTest, label: str):
    """Return the button whose label begins with this text."""
    return next(b for b in at.button if b.label.startswith(label))


def test_result_says_first_what_the_run_is_good_for(visit: Visit, run: str) -> None:
    at = visit("result", run=run)
    verdict = next(m.value for m in at.markdown if "held-out structures;" in m.value)
    assert "RMSE 0." in verdict and "95 % intervals contain" in verdict
    text = texts(at)
    assert "far off" in text
    worst = at.dataframe[0].value
    assert len(worst) == 24
    assert worst["picture"].str.startswith("pictures/").all() and worst["picture"].is_unique
    assert f"**{worst['id'].iloc[0]}, {worst['formula'].iloc[0]}**" in text.replace("\\", "")
    assert list(worst["error_eV"].abs()) == sorted(worst["error_eV"].abs(), reverse=True)
    assert len(primary(at)) == 1


def test_details_have_split_commands_and_files(visit: Visit, run: str) -> None:
    at = visit("result", run=run, tab="details")
    assert "Of 60 labelled structures it learned from 36; 24 held out for the test; none" in texts(
        at
    )
    assert "bandgap transfer" in at.code[0].value and "bandgap serve" in at.code[0].value
    labels = [button.proto.label for button in at.get("download_button")]
    assert (
        labels[0] == "Report (HTML)"
        and "The run (zip)" in labels
        and "Held-out predictions (CSV)" in labels
    )


def test_refit_learns_from_all_and_its_page_names_the_test_of_its_parent(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    at = visit("result", run=run)
    button(at, "Refit on all 60").click().run()
    assert not at.exception
    refit = workspace.library.runs(workspace.id)[0]
    assert refit.title == "Refitted on all 60, last_layer_ridge"
    assert button(visit("result", run=run), "See how far it is").proto.type == "primary"
    work_all(workspace.home)
    parent = texts(visit("result", run=run))
    at = visit("result", run=refit.id)
    text = texts(at)
    assert (
        "Learned from all 60 labels. Error and coverage are those of last_layer_ridge, n = 36, "
        "which learned from 36 and was tested on 24 others." in text
    )
    sentence = next(m.value for m in at.markdown if "held-out structures;" in m.value)
    assert sentence in parent
    assert not [b for b in at.button if b.label.startswith("Refit")]
    assert "bandgap refit RUN" in visit("result", run=refit.id, tab="details").code[0].value


def test_train_page_opens_the_result_of_a_run_that_it_showed_while_it_was_active(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    button(visit("result", run=run), "Refit on all 60").click().run()
    refit = workspace.library.runs(workspace.id)[0]
    at = visit("train", run=refit.id)
    assert at.title[0].value == "Train"
    work_all(workspace.home)
    at.run()
    assert at.title[0].value == "Result"
    assert "The training is finished after" in texts(at)
    assert visit("train", run=refit.id).title[0].value == "Train"  # not for a later visit


def test_predict_offers_the_refit_until_its_parent_is_chosen(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    at = visit("result", run=run)
    button(at, "Refit on all 60").click().run()
    work_all(workspace.home)
    refit = workspace.library.runs(workspace.id)[0]
    at = visit("predict", run=run)
    box = labelled(at.selectbox, "Predict with")
    assert box.value == refit.id
    box.set_value(run).run()
    box = labelled(at.selectbox, "Predict with")
    assert box.value == run


def test_result_of_a_run_whose_data_set_was_deleted_offers_no_refit(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    row = workspace.library.run(workspace.id, run)
    assert row is not None
    delete_dataset(workspace.library, workspace.id, row.dataset)
    at = visit("result", run=run)
    assert not [b for b in at.button if b.label.startswith("Refit")]
    assert len(primary(at)) == 1


def test_refit_whose_chains_have_not_agreed_offers_a_step_that_exists(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    sampler = {"sampler": {"warmup": 400, "draws": 1000}}
    entry = MethodEntry("Ridge", "Fits the last layer.", duration="seconds", settings=sampler)
    workspace.library.register_methods({"last_layer_ridge": entry})
    button(visit("result", run=run), "Refit on all 60").click().run()
    work_all(workspace.home)
    refit = workspace.library.runs(workspace.id)[0]
    change_diagnostics(workspace, refit.id, rhat={"tau": 1.4}, ess={"tau": 20.0})
    at = visit("result", run=refit.id)
    assert "more draws need the data set" in texts(at).lower()
    assert len(primary(at)) == 1


def test_warning_of_chains_gives_no_other_advice_than_the_button(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    sampler = {"sampler": {"warmup": 400, "draws": 1000}}
    entry = MethodEntry("Ridge", "Fits the last layer.", duration="seconds", settings=sampler)
    workspace.library.register_methods({"last_layer_ridge": entry})
    rhat = {"tau": 1.4}
    warnings = [disagreement(rhat)]
    change_diagnostics(workspace, run, rhat=rhat, ess={"tau": 20.0}, warnings=warnings)
    at = visit("result", run=run)
    (warning,) = [box.value for box in at.warning if "have not agreed" in box.value]
    assert warning.endswith("not for a table.")
    assert [b.label for b in at.button if "draws of each chain" in b.label]
    layers = texts(visit("result", run=run, tab="layers"))
    assert (
        layers.count("have not agreed yet on") == 1
        and "Train again with more warm-up" not in layers
    )


def test_run_without_data_set_whose_chains_have_not_agreed_says_why_there_are_no_more_draws(
    visit: Visit, workspace: Workspace, run: str
) -> None:
    row = workspace.library.run(workspace.id, run)
    assert row is not None
    delete_dataset(workspace.library, workspace.id, row.dataset)
    change_diagnostics(workspace, run, rhat={"tau": 1.4}, ess={"tau": 20.0})
    text = texts(visit("result", run=run))
    assert "More draws need the data set of the run" in text
    assert "The test is done" not in text
