"""Result names near-copies across the split, and offers to keep formulas together."""

from collections.abc import Callable

import numpy as np
import pytest
from ase.build import bulk
from streamlit.testing.v1 import AppTest

from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, labelled, texts

CRYSTALS = ("GaAs", "GaP", "InAs", "InP")


def rattled(n: int = 5) -> bytes:
    """Return `n` displaced copies of each of four crystals as extXYZ, with gaps."""
    rng = np.random.default_rng(0)
    blocks = []
    for name in CRYSTALS:
        crystal = bulk(name, "zincblende", 5.8)
        cell = " ".join(f"{x:.4f}" for x in crystal.cell.array.ravel())
        for k in range(n):
            positions = crystal.positions + 0.01 * rng.normal(size=(2, 3))
            atoms = "".join(
                f"{symbol} {x:.5f} {y:.5f} {z:.5f}\n"
                for symbol, (x, y, z) in zip(crystal.symbols, positions, strict=True)
            )
            header = f'Lattice="{cell}" Properties=species:S:1:pos:R:3 id={name}-{k} pbc="T T T"'
            header += f" gap_eV={1.0 + 0.1 * len(blocks):.1f}"
            blocks.append(f"2\n{header}\n{atoms}")
    return "".join(blocks).encode()


def add_rattled(workspace: Workspace, n: int = 5) -> None:
    """Store the copies as a checked data set with gaps."""
    dataset = workspace.add_checked([("rattled.extxyz", rattled(n))])
    total = n * len(CRYSTALS)
    workspace.give_gaps(dataset, np.linspace(1.0, 3.0, total))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of pretrained potentials
def test_near_copies_of_a_run_are_named_on_result_alone_with_a_button(
    visit: Callable[..., AppTest], workspace: Workspace
) -> None:
    add_rattled(workspace, 12)
    (dataset,) = workspace.library.datasets(workspace.id)
    options = {"method": "kernel_ridge", "source": "none", "n": 36, "n_test": 12}
    run, _ = workspace.add_run(dataset.id, **options)
    work_all(workspace.home)
    for page in ("home", "train", "predict"):
        assert "near-copy among the structures learned from" not in texts(visit(page, run=run))
    assert "Near-copies in the test" in texts(visit("result", run=run))
    at = visit("result", run=run, tab="details")
    assert "12 of 12 test structures have a near-copy" in texts(at)
    assert "--by-formula" not in " ".join(warning.value for warning in at.warning)
    labelled(at.button, "Test by formula").click().run()
    newest = workspace.library.runs(workspace.id)[0]
    assert newest.id != run and newest.request.by_formula
    assert newest.request.method == "kernel_ridge" and newest.request.n == 36
