"""Which source and method the page Train proposes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.train.run_setup import preset_levels
from bandgap.datasets.demo import demo_source_folder
from bandgap.jobs.catalogue import register_all
from bandgap.sources.method_cards import ROLE_TEXTS
from bandgap.sources.proposed import Target, knows_most, propose
from bandgap.sources.stored import load_source
from bandgap.structures import read_paths
from bandgap.transfer import METHODS
from benchmarks.crystals import SETS
from tests.app.conftest import Workspace, labelled, texts
from tests.app.test_train import tick

Visit = Callable[..., AppTest]


def frame(*, metal: str, spacing: float) -> str:
    """Return a molecule of a metal or carbon with two hydrogen atoms."""
    return (
        f"3\nProperties=species:S:1:pos:R:3\n{metal} 0 0 0\nH 0 {spacing:.3f} 0.5\nH 0 "
        f"-{spacing:.3f} 0.5\n"
    )


def ticked(at: AppTest) -> list[str]:
    on_cards = [box for box in at.checkbox if str(box.key).startswith("method-")]
    return [box.label for box in on_cards if box.value] + at.multiselect[0].value


def test_method_that_is_ticked_without_a_source_is_the_one_that_the_benchmark_judges(
    visit: Visit, workspace: Workspace
) -> None:
    register_all(str(workspace.home.folder))
    workspace.add_labelled()
    at = visit("train", source="none")
    assert ticked(at) == [METHODS[SETS["perovskites"].proposed].title]


@pytest.mark.parametrize(
    ("foreign", "source", "method"),
    [
        (0, "demo", "feature_gp"),
        (2, "demo", "feature_gp"),  # a tenth
        (5, "none", "stacking"),
        (20, "none", "stacking"),
    ],
)
def test_source_and_method_are_proposed_by_how_many_structures_hold_elements_that_molecules_lack(
    visit: Visit, workspace: Workspace, foreign: int, source: str, method: str
) -> None:
    register_all(str(workspace.home.folder))
    text = "".join(
        frame(metal="Pb" if k < foreign else "C", spacing=1.0 + 0.01 * k) for k in range(20)
    )
    dataset = workspace.add_checked([("pairs.extxyz", text.encode())])
    workspace.give_gaps(dataset, np.linspace(1.0, 3.0, 20))
    at = visit("train")
    box = labelled(at.selectbox, "Source model")
    assert (box.value, ticked(at)) == (source, [METHODS[method].title])
    reason = "None is proposed: the first lacks elements of your structures"
    assert (reason in box.help) == (source == "none")
    box.set_value("none" if source == "demo" else "demo").run()
    assert ticked(at) == [METHODS["feature_gp" if source == "none" else "stacking"].title]


@pytest.mark.parametrize("has_metals", [True, False])
def test_error_on_the_card_is_that_on_crystals_with_metals_if_labels_contain_zeros(
    visit: Visit, workspace: Workspace, has_metals: bool
) -> None:
    register_all(str(workspace.home.folder))
    dataset = workspace.add_labelled(40)
    gaps = np.maximum(np.linspace(-2.0, 2.0, 40), 0.0) + (0.0 if has_metals else 1.0)
    workspace.give_gaps(dataset, gaps)
    at = visit("train", source="none")
    assert ticked(at) == [METHODS["stacking"].title]
    card = " on inorganic perovskites with metals among them, GLLB-SC ("
    assert (card in texts(at)) == has_metals


def levels_of(at: AppTest) -> str:
    return next(str(box.value) for box in at.selectbox if box.label == "Electron levels")


def levels_left_out(at: AppTest) -> bool:
    return any("levels; this start has none" in info.value for info in at.info)


def add_methylenes(workspace: Workspace, *, has_tblite: bool, level_of_theory: str) -> None:
    """Add 40 labelled molecules, on a server with or without tblite."""
    register_all(str(workspace.home.folder))
    system = workspace.library.system()
    assert system is not None
    workspace.library.register_system(replace(system, levels=has_tblite))
    text = "".join(frame(metal="C", spacing=1.0 + 0.01 * k) for k in range(40))
    dataset = workspace.add_checked([("methylenes.extxyz", text.encode())])
    workspace.give_gaps(dataset, np.linspace(1.0, 3.0, 40), level=level_of_theory)


@pytest.mark.parametrize(("has_tblite", "error"), [(True, "RMSE 0.37 eV"), (False, "RMSE 0.48 eV")])
def test_levels_from_bonds_are_preset(
    visit: Visit, workspace: Workspace, has_tblite: bool, error: str
) -> None:
    add_methylenes(workspace, has_tblite=has_tblite, level_of_theory="PBE")
    at = visit("train")
    assert levels_of(at) == ("GFN1-xTB-and-Hueckel" if has_tblite else "Hueckel-molecules")
    assert any(error in caption.value for caption in at.caption)
    # Levels of both ways were not measured with this method, those of tight binding were.
    tick(at, METHODS["btl_pcp_pe"].title)
    assert levels_of(at) == ("GFN1-xTB" if has_tblite else "none")
    assert any(info.value.startswith("Proposed are ") for info in at.info)


@pytest.mark.parametrize(
    ("level_of_theory", "installed", "method", "levels"),
    [
        ("PBE", True, "feature_gp", True),
        ("PBE", False, "feature_gp", True),
        ("GFN1-xTB (periodic, Gamma)", True, "btl_pcp_pe", False),
    ],
    ids=["levels", "no tblite", "tight binding"],
)
def test_levels_are_proposed_where_they_can_be_computed_and_are_not_the_labels(
    visit: Visit,
    workspace: Workspace,
    level_of_theory: str,
    installed: bool,
    method: str,
    levels: bool,
) -> None:
    add_methylenes(workspace, has_tblite=installed, level_of_theory=level_of_theory)
    at = visit("train")
    assert ticked(at) == [METHODS[method].title]
    assert (levels_of(at) != "none") == levels
    roles = [text.value for text in at.markdown if text.value.strip("*") in ROLE_TEXTS]
    second = "Fast" if method == "btl_pcp_pe" else "Shows layers"
    assert roles == ["**Recommended**", f"**{second}**", "**Baseline**"]
    reasons = next(text.proto.help for text in at.markdown if text.value == "**Recommended**")
    assert ("they need tblite: run `pip install" in reasons) == (not installed)
    assert ("RMSE 0.37 eV" in reasons) == (installed and levels)
    assert not levels_left_out(at)
    assert f"More methods ({len(METHODS) - 3})" in [box.label for box in at.expander]
    at.multiselect[0].set_value(["kernel_ridge"]).run()  # the levels did not help it
    assert levels_of(at) == "none"
    assert levels_left_out(at) == levels


@pytest.mark.slow
@pytest.mark.data
def test_sets_of_the_benchmark_are_proposed_what_their_crystals_ask_for(test_data: Path) -> None:
    molecules = load_source(demo_source_folder(), verify=False).descriptor.elements
    for name, where in SETS.items():
        records = read_paths([test_data / where.structures])
        elements = [set(record.atoms.symbols) for record in records if record.status != "refused"]
        n_known = sum(symbols <= set(molecules) for symbols in elements)
        assert knows_most(n_known, len(elements)) == (where.source == "molecules"), name


def test_electron_levels_are_preset_only_for_methods_whose_error_they_lowered():
    perovskites = Target({("C", "H", "I", "Pb"): 80}, "HSE", n=64)
    proposal = propose(perovskites, levels_installed=True)
    of = {methods: preset_levels(proposal, methods, kind=perovskites.kind) for methods in PICKED}
    assert list(of.values()) == ["GFN1-xTB-molecules", "none", "none"]


PICKED = (("stacking",), ("kernel_ridge",), ("stacking", "kernel_ridge"))
