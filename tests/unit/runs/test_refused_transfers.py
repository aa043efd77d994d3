"""What cannot be learned from is refused with the reason."""

import numpy as np
import pytest
from ase import Atoms

from bandgap.descriptors.electron_levels import BOTH, METHOD, electron_levels
from bandgap.foundation.errors import InputError
from bandgap.runs.compared_tables import tables_for
from bandgap.runs.comparison import Comparison, compare
from bandgap.structures import StructureRecord
from tests.transfers import transfer_labelled


def test_too_few_labels_are_refused(source_folder, world, tmp_path):
    with pytest.raises(
        InputError, match="2 labelled structures are too few to transfer to. Give at least 5"
    ):
        transfer_labelled(
            source_folder, world.records[:2], world.gaps_eV[:2], n_test=0, out=tmp_path
        )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({}, "4 of 5 labelled structures are left to learn from, because 1 for the test was held"),
        (
            {"conformal_share": 0.5},
            "2 of 5 .* because 1 for the test and 2 for conformal intervals were held back. At"
            " least 5 are needed .*: `--n-test, --conformal-share`",
        ),
    ],
)
def test_five_labels_of_which_some_are_held_back_are_counted(
    numbers, message, source_folder, world, tmp_path
):
    five_labelled = (world.records[:5], world.gaps_eV[:5])
    with pytest.raises(InputError, match=message):
        transfer_labelled(source_folder, *five_labelled, out=tmp_path, **numbers)
    assert transfer_labelled(source_folder, *five_labelled, out=tmp_path / "run", n_test=0).is_dir()


def test_the_test_set_is_not_blamed_for_few_structures_that_were_asked_for(
    source_folder, world, tmp_path
):
    with pytest.raises(
        InputError,
        match="2 of 5 labelled structures .* because 3 for conformal intervals were held back"
        ".*Learn from more than 5, or hold back fewer: `--n, --conformal-share`",
    ):
        transfer_labelled(
            source_folder,
            world.records,
            world.gaps_eV,
            out=tmp_path,
            n=5,
            n_test=4,
            conformal_share=0.6,
        )


def test_structures_that_cannot_be_described_are_named_where_too_few_are_left(world, tmp_path):
    """Helium has one orbital in GFN1-xTB, so that there is no empty level."""
    pytest.importorskip("tblite")
    records = list(world.records[:5])
    for k in range(8):
        atoms = Atoms("He2", [(0, 0, 0), (0, 0, 2.5 + 0.1 * k)])
        records.append(StructureRecord(f"helium-{k}", "a.xyz", "XYZ", atoms))
    with pytest.raises(
        InputError,
        match=r"[1-4] of 10 structures to learn from can be described\. At least 5 are needed\."
        r" .* left out: helium-",
    ):
        transfer_labelled(
            None,
            records,
            np.linspace(1.0, 5.0, 13),
            out=tmp_path,
            n_test=3,
            method="gaussian_process",
            levels="GFN1-xTB",
        )


@pytest.mark.parametrize("levels", ["none", METHOD, BOTH])
def test_gaps_that_are_an_input_are_refused_by_the_name_of_the_input(
    levels, source_folder, world, tmp_path
):
    pytest.importorskip("tblite")
    gaps_eV = world.gaps_eV
    fields = {"baseline": "gap_pbe_eV", "baseline_eV": gaps_eV + 1e-3}
    if levels != "none":
        gaps_eV = np.array([electron_levels(r.atoms, METHOD)[0] for r in world.records])
        fields = {"levels": levels}
    name = f"{METHOD} electron levels" if levels != "none" else "the baseline gap_pbe_eV"
    with pytest.raises(InputError, match=f"The gaps to learn are those of {name}: they differ by"):
        transfer_labelled(
            source_folder, world.records, gaps_eV, out=tmp_path, method="feature_gp", **fields
        )


def test_compared_method_with_levels_that_are_the_gaps_is_not_fitted(source_folder, world):
    pytest.importorskip("tblite")
    gaps_eV = np.array([electron_levels(r.atoms, METHOD)[0] for r in world.records])
    compared = tables_for(["kernel_ridge"], source_folder, world.records, gaps_eV, levels=METHOD)
    plan = Comparison({"kernel_ridge+levels": {}, "kernel_ridge": {}}, (14,), (0,), 6)
    texts = {fit.method: fit.failed for fit in compare(compared, plan, device="cpu")}
    assert (
        "The gaps to learn are those of GFN1-xTB electron levels" in (texts["kernel_ridge+levels"])
    )
    assert not texts["kernel_ridge"]


@pytest.mark.parametrize(
    "kind, reason",
    [
        ("broken", "block 1 has no atoms"),
        ("foreign", "Si"),
        ("unlabelled", "no structure has a gap"),
    ],
)
def test_nothing_to_learn_from_is_refused_with_the_reason(
    source_folder, world, tmp_path, kind, reason
):
    record = world.records[0] if kind == "unlabelled" else getattr(world, kind)
    gap = np.nan if kind == "unlabelled" else 3.0
    with pytest.raises(InputError, match=f"None of 1 structures can be learned from: .*{reason}"):
        transfer_labelled(
            source_folder, [record], np.array([gap]), method="last_layer_ridge", out=tmp_path
        )
