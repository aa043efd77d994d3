"""Which source and method the page Train proposes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.datasets.demo import demo_source_folder
from bandgap.jobs.catalogue import register_all
from bandgap.sources.proposed import knows_most, proposed_method
from bandgap.sources.stored import load_source
from bandgap.structures import read_paths
from bandgap.transfer import METHODS
from benchmarks.crystals import SETS
from tests.app.conftest import Workspace

Visit = Callable[..., AppTest]


def frame(*, metal: str, spacing: float) -> str:
    """Return a molecule of a metal or carbon with two hydrogen atoms."""
    return f"3\nProperties=species:S:1:pos:R:3\n{metal} 0 0 0\nH 0 {spacing:.3f} 0.5\nH 0 -{spacing:.3f} 0.5\n"


def ticked(at: AppTest) -> list[str]:
    return [box.label for box in at.checkbox if str(box.key).startswith("method-") and box.value]


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
        (0, "demo", proposed_method(transfers=True)),
        (2, "demo", proposed_method(transfers=True)),  # a tenth
        (5, "none", proposed_method(transfers=False)),
        (20, "none", proposed_method(transfers=False)),
    ],
)
def test_source_and_method_are_proposed_by_how_many_structures_hold_elements_that_molecules_lack(
    visit: Visit, workspace: Workspace, foreign: int, source: str, method: str
) -> None:
    register_all(str(workspace.home.folder))
    text = "".join(frame(metal="Pb" if k < foreign else "C", spacing=1.0 + 0.01 * k) for k in range(20))
    dataset = workspace.add_checked([("pairs.extxyz", text.encode())])
    labels = {"source": "gaps.csv", "matched": 20}
    workspace.library.save_gaps(dataset, np.linspace(1.0, 3.0, 20), labels=labels, level_of_theory="PBE")
    at = visit("train")
    box = next(box for box in at.selectbox if box.label == "Source model")
    assert (box.value, ticked(at)) == (source, [METHODS[method].title])
    said = [caption.value for caption in at.caption if "Proposed, because" in caption.value]
    if source == "demo":
        assert said == []
    else:
        assert len(said) == 1 and f"knows all elements of {20 - foreign} of 20 structures" in said[0]
    box.set_value("none" if source == "demo" else "demo").run()
    assert not any("Proposed, because" in caption.value for caption in at.caption)
    assert ticked(at) == [METHODS[proposed_method(transfers=source == "none")].title]


@pytest.mark.data
def test_sets_of_the_benchmark_are_proposed_what_their_crystals_ask_for(test_data: Path) -> None:
    molecules = load_source(demo_source_folder(), verify=False).descriptor.elements
    for name, where in SETS.items():
        records = read_paths([test_data / where.structures])
        elements = [set(record.atoms.symbols) for record in records if record.status != "refused"]
        known = sum(found <= set(molecules) for found in elements)
        assert knows_most(known, len(elements)) == (where.source == "molecules"), name
