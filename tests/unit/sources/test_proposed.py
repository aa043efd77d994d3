"""The proposed source, method and electron levels for labelled structures."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk

import bandgap
from bandgap.foundation.errors import ConfigError
from bandgap.runs.proposal import method_and_levels
from bandgap.sources.measured_errors import levels_help, measured_errors
from bandgap.sources.proposed import MAX_ROWS, Target, propose, source_gain
from bandgap.structures import Problem
from tests.transfers import transfer_labelled
from tests.unit.conftest import World, record_of
from tests.unit.descriptors.samples import record

ORGANIC = {("C", "H", "N"): 90, ("Br", "C", "H"): 10}
WITH_METALS = {("C", "H", "O", "Zn"): 70, ("C", "H", "N"): 30}
INORGANIC = {("O", "Ti"): 60, ("Cs", "I", "Pb"): 40}
XTB = "GFN1-xTB (periodic, Gamma)"


@pytest.mark.parametrize(
    ("sets", "theory_level", "installed", "expected"),
    [
        (ORGANIC, "PBE", True, ("feature_gp", "GFN1-xTB")),
        (ORGANIC, "", True, ("feature_gp", "GFN1-xTB")),
        (ORGANIC, "PBE", False, ("feature_gp", "none")),
        (ORGANIC, XTB, True, ("btl_pcp_pe", "none")),
        (ORGANIC, XTB, False, ("btl_pcp_pe", "none")),
        (INORGANIC, "PBE", True, ("feature_gp", "none")),
        (WITH_METALS, "PBE", True, ("feature_gp", "none")),
    ],
    ids=[
        "organic",
        "unknown level",
        "no tblite",
        "tight binding",
        "tight binding, no tblite",
        "inorganic",
        "metals with carbon and hydrogen",
    ],
)
def test_method_and_levels_with_a_source(sets, theory_level, installed, expected) -> None:
    target = Target(sets, theory_level, n=100)
    proposal = propose(target, transfers=True, levels_installed=installed)
    assert proposal.transfers
    assert (proposal.method, proposal.levels) == expected


def test_model_of_pbe_gaps_is_the_source_for_few_gaps_of_another_level() -> None:
    measured = Target({("O", "Ti"): 60, ("O", "Zn"): 40}, "experiment", n=50)
    pair = source_gain(measured, potentials=["chgnet"])
    assert pair is not None
    with_source, alone = pair
    assert (with_source.source, with_source.method, with_source.n) == ("pbe", "feature_gp", 50)
    assert with_source.rmse_eV < alone.rmse_eV
    proposal = propose(measured, transfers=True, potentials=["chgnet"])
    assert proposal.method == "feature_gp" and with_source.text in proposal.measured
    without = propose(measured, transfers=False, potentials=["chgnet"])
    assert f"With `--source pbe` and feature_gp it was {with_source.text}" in without.gain


@pytest.mark.parametrize(
    ("target", "potentials"),
    [
        (Target({("O", "Ti"): 100}, "PBE", n=50), ["chgnet"]),
        (Target({("C", "H", "I", "N", "Pb"): 100}, "HSE", n=50), ["chgnet"]),
        (Target({("O", "Ti"): 9000}, "experiment", n=MAX_ROWS + 1), ["chgnet"]),
        (Target({("O", "Ti"): 300}, "experiment", n=250), []),
    ],
    ids=["PBE gaps", "hybrid perovskites", "many labels", "250 labels without a potential"],
)
def test_no_source_is_proposed_where_it_was_not_better(
    target: Target, potentials: list[str]
) -> None:
    assert source_gain(target, potentials=potentials) is None


def test_source_is_proposed_if_it_knows_four_fifths_and_stacking_otherwise() -> None:
    target = Target(ORGANIC, "PBE", n=70)
    assert propose(target, n_known=80).transfers
    proposal = propose(target, n_known=79, levels_installed=True)
    assert (proposal.transfers, proposal.method) == (False, "stacking")


@pytest.mark.parametrize(
    ("transfers", "methods"),
    [(True, ("feature_gp", "btl_pcp_pe")), (False, ("stacking", "fresh_networks"))],
    ids=["with a source", "without a source"],
)
def test_more_rows_than_a_dense_gaussian_process_can_use_are_for_networks(
    transfers: bool, methods: tuple[str, str]
) -> None:
    at_limit, above = (
        propose(Target(ORGANIC, n=n), transfers=transfers) for n in (MAX_ROWS, MAX_ROWS + 1)
    )
    assert (at_limit.method, above.method) == methods


def test_proposal_states_measured_errors_and_the_gain_of_levels_that_are_not_installed() -> None:
    with_levels, without = (
        propose(Target(ORGANIC, "PBE", n=100), transfers=True, levels_installed=installed)
        for installed in (True, False)
    )
    assert "RMSE 0.38 to 0.40 eV, without levels 0.52 to 0.60 eV" in with_levels.sentence
    assert with_levels.gain == ""
    gain = (
        "With GFN1-xTB levels of every structure it was 0.38 to 0.40 eV instead of 0.52 to 0.60 eV "
        "(100 labelled, 760 held out, with xtb): they need tblite: run `pip install"
    )
    assert gain in without.gain
    for proposal in (with_levels, without):
        assert "the posterior of c" in proposal.alternative_shows
    errors = "Its RMSE was 0.54 to 0.59 eV, that of feature_gp 0.52 to 0.60 eV."
    assert without.alternative_shows.endswith(errors)
    tight_binding = propose(Target(ORGANIC, XTB, n=100), transfers=True, levels_installed=True)
    assert tight_binding.sentence.startswith(
        f"The gaps were computed with {XTB}: GFN1-xTB electron levels as features would nearly "
        "give the answer, and are not used."
    )


def test_levels_of_molecules_are_proposed_for_hybrid_perovskites_without_a_source() -> None:
    perovskites = Target({("C", "H", "I", "N", "Pb"): 80, ("Cs", "I", "Pb"): 20}, "HSE", n=100)
    proposal = propose(perovskites, levels_installed=True)
    assert (proposal.transfers, proposal.method) == (False, "stacking")
    assert proposal.levels == "GFN1-xTB-molecules"
    assert "Structures without a molecule, such as CsPbI3, are left out." in proposal.sentence
    only_hybrid = Target({("C", "H", "I", "N", "Pb"): 80}, "HSE", n=64)
    assert "are left out" not in propose(only_hybrid, levels_installed=True).sentence
    without = propose(perovskites, levels_installed=False)
    assert (without.method, without.levels) == ("stacking", "none")
    assert "levels of the molecules" in without.gain and "pip install" in without.gain
    assert "0.18 eV instead of 0.22 eV (100 labelled, 103 held out, with" in without.gain
    mixed = Target({("C", "H", "I", "N", "Pb"): 79, ("Cs", "I", "Pb"): 21}, "HSE", n=100)
    assert propose(mixed, levels_installed=True).levels == "none"
    tight_binding = Target(perovskites.element_sets, XTB, n=100)
    assert propose(tight_binding, levels_installed=True).levels == "none"


@pytest.mark.parametrize(
    ("transfers", "has_tblite", "levels", "method"),
    [
        (True, True, "GFN1-xTB-and-Hueckel", "feature_gp"),
        (True, False, "Hueckel-molecules", "feature_gp"),
        (False, True, "GFN1-xTB-and-Hueckel", "stacking"),
        (False, False, "Hueckel-molecules", "stacking"),
    ],
)
def test_levels_from_bonds_are_proposed_for_organic_structures(
    transfers: bool, has_tblite: bool, levels: str, method: str
) -> None:
    installed = {"levels_installed": has_tblite, "bonds_installed": True}
    proposal = propose(Target(ORGANIC, "PBE", n=100), transfers=transfers, **installed)
    assert (proposal.method, proposal.levels) == (method, levels)
    assert "from the bonds of the molecules, which take milliseconds" in proposal.sentence
    assert "Structures without a molecule are left out." in proposal.sentence
    # The error with these levels, and that without any, from the same splits.
    assert re.search(r"RMSE 0\.\d\d eV, without levels 0\.\d\d eV", proposal.measured)
    assert levels_help(Target(ORGANIC, "PBE").kind, method, levels, has_source=transfers)
    for sets, theory_level in ((INORGANIC, "PBE"), (ORGANIC, XTB)):
        target = Target(sets, theory_level, n=100)
        assert propose(target, transfers=transfers, **installed).levels == "none"


@pytest.mark.parametrize(
    ("n_zeros", "n_refused", "is_of_metals"), [(10, 0, True), (9, 0, False), (10, 1, False)]
)
def test_proposal_for_labels_with_zeros_states_the_error_on_crystals_with_metals(
    n_zeros: int, n_refused: int, is_of_metals: bool
) -> None:
    """Fewer than 10 metals have no classifier, and refused structures are not counted."""
    salts = [record(bulk("NaCl", "rocksalt", a=5.0 + 0.01 * k)) for k in range(24)]
    refused = record_of("broken", None, Problem("refused", "block 1 has no atoms."))
    salts[:n_refused] = [refused] * n_refused
    gaps = np.array([0.0] * n_zeros + [2.0] * (24 - n_zeros))
    proposal = bandgap.propose_for(salts, gaps, has_source=False, level_of_theory="PBE")
    assert proposal.method == "stacking"
    assert ("perovskites with metals among them" in proposal.measured) == is_of_metals


@pytest.mark.parametrize(("n", "n_measured"), [(90, 100), (250, 100), (251, 400), (600, 400)])
def test_proposal_for_labels_with_zeros_states_what_potentials_would_gain(
    n: int, n_measured: int
) -> None:
    """Error and gain are those with the number of labels nearest to that of the target.

    Of two that are equally near it is the smaller one.
    """
    target = Target({("Ba", "Ti", "O"): n}, "GLLB-SC", n=n, has_metals=True)
    proposal = propose(target, transfers=False)
    rows = {
        row.extras: row
        for row in measured_errors()
        if (row.kind, row.n, row.method) == (target.kind, n_measured, proposal.method)
    }
    best = min(rows.values(), key=lambda row: row.rmse_eV)
    names = best.extras.replace(" ", " and ")
    assert f"potentials ({names}) it was {best.text} instead of {rows[''].text}" in proposal.gain
    with_both = propose(target, transfers=False, potentials=("chgnet", "sevennet"))
    assert rows["chgnet sevennet"].text in with_both.measured
    assert with_both.gain == ""


@pytest.mark.parametrize("installed", [(), ("chgnet",)])
def test_error_without_the_potentials_that_are_installed_says_so(
    installed: tuple[str, ...],
) -> None:
    measured = propose(Target({("C", "H", "Zn"): 100}), transfers=False, potentials=installed)
    assert ("(100 labelled, 69 held out, no pretrained potentials)" in measured.measured) == bool(
        installed
    )


def test_proposal_depends_only_on_structures_that_can_be_learned_from(world: World) -> None:
    """Refused structures and those without a gap are not counted."""
    gaps = np.append(world.gaps_eV, 1.0)
    records = [*world.records, world.broken]
    installed = {"levels_installed": True, "bonds_installed": False}
    proposal = bandgap.propose_for(
        records, gaps, has_source=True, level_of_theory="PBE", **installed
    )
    organic = [record for record in world.records if {"C", "H"} <= set(record.atoms.symbols)]
    assert (proposal.levels == "GFN1-xTB") == (len(organic) >= 0.8 * len(world.records))
    only = np.where([record in organic for record in records], gaps, np.nan)
    proposal = bandgap.propose_for(
        records, only, has_source=True, level_of_theory="PBE", **installed
    )
    assert (proposal.method, proposal.levels) == ("feature_gp", "GFN1-xTB")


def test_given_method_and_levels_are_kept_and_missing_ones_are_proposed(world: World) -> None:
    data = (world.records, world.gaps_eV)
    target = {"has_source": True, "level_of_theory": XTB, "n": None}
    assert method_and_levels("fine_tune", None, *data, **target)[:2] == ("fine_tune", "none")
    assert method_and_levels("fine_tune", "GFN1-xTB", *data, **target)[:2] == (
        "fine_tune",
        "GFN1-xTB",
    )
    method, levels, proposal = method_and_levels(None, None, *data, **target)
    assert (method, levels) == ("btl_pcp_pe", "none") and proposal is not None
    target["level_of_theory"] = "PBE"
    assert method_and_levels(None, "none", *data, **target)[:2] == ("feature_gp", "none")
    with pytest.raises(ConfigError, match="levels is 'DFT'"):
        method_and_levels(None, "DFT", *data, **target)


def test_run_without_a_method_uses_the_proposal(
    source_folder: Path, world: World, tmp_path: Path
) -> None:
    """The expected levels depend on whether tblite is installed here."""
    gaps = np.where(
        [{"C", "H"} <= set(record.atoms.symbols) for record in world.records], world.gaps_eV, np.nan
    )
    settings = {"draws": 8, "proposals": 50}
    more = {"n": 8, "n_test": 2, "settings": settings, "device": "cpu", "level_of_theory": "PBE"}
    run = transfer_labelled(source_folder, world.records, gaps, out=tmp_path, **more)
    manifest = bandgap.load_run(run).manifest
    has_tblite = importlib.util.find_spec("tblite") is not None
    levels = "GFN1-xTB-and-Hueckel" if has_tblite else "Hueckel-molecules"
    assert (manifest["method"], manifest["request"]["levels"]) == ("feature_gp", levels)
