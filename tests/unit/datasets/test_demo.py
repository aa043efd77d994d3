"""The shipped demo data: tables, structures, and errors of the loader."""

import shutil

import numpy as np
import pytest

from bandgap.cli.inputs import LabelChoice, load_gaps
from bandgap.datasets.demo import (
    data_folder,
    demo_source_folder,
    load_demo,
    read_demo_manifest,
    unlabelled_cifs,
)
from bandgap.datasets.gaps import levels_of_records
from bandgap.descriptors.electron_levels import BOTH
from bandgap.foundation.errors import ArtifactError
from bandgap.runs.proposal import propose_for
from bandgap.sources.stored import load_source
from bandgap.structures import read_paths
from data.making.contacts import closest_contact, density_g_cm3
from data.making.lattice_energy import SPACE_GROUPS
from data.making.shipping import changed_files, distributions, markdown_table, seal_source_model

ELEMENTS = {"H", "C", "N", "O", "F", "S", "Cl"}
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def molecules():
    return load_demo("molecules")


@pytest.fixture(scope="module")
def crystals():
    return load_demo("crystals")


@pytest.fixture
def copied(tmp_path):
    """A copy of the shipped files that a test may damage."""
    shutil.copytree(data_folder(), tmp_path / "data")
    return tmp_path / "data"


def test_molecules_are_at_least_ten_thousand_distinct_ones_of_5_to_60_atoms(molecules):
    table = molecules.table
    assert len(table) == len(molecules.records) == len(molecules.gaps_eV) >= 10_000
    assert table["inchikey"].is_unique and table["smiles"].is_unique
    assert table["n_atoms"].between(5, 60).all()
    assert table["id"].tolist()[0] == "mol-00001"
    assert molecules.level_of_theory == "GFN2-xTB"


def test_crystals_are_at_least_fifteen_hundred_of_other_molecules(molecules, crystals):
    assert len(crystals.records) == len(crystals.gaps_eV) >= 1_500
    assert crystals.table["inchikey"].is_unique
    assert not set(crystals.table["inchikey"]) & set(molecules.table["inchikey"])
    assert not set(crystals.table["inchikey"].str[:14]) & set(molecules.table["inchikey"].str[:14])
    assert crystals.table["id"].tolist()[0] == "xtal-0001"
    assert "GFN1-xTB" in crystals.level_of_theory


@pytest.mark.parametrize("name", ["molecules", "crystals"])
def test_records_agree_with_their_rows_and_nothing_is_refused(name, request):
    demo = request.getfixturevalue(name)
    assert [r.n_atoms for r in demo.records] == demo.table["n_atoms"].tolist()
    assert {r.periodic for r in demo.records} == {name == "crystals"}
    assert {
        symbol for r in demo.records for symbol in set(r.atoms.get_chemical_symbols())
    } == ELEMENTS
    assert not [r.problem for r in demo.records if r.status == "refused"]
    assert [r.info["gap_eV"] for r in demo.records] == demo.gaps_eV.tolist()
    assert levels_of_records(demo.records) == (demo.level_of_theory,)
    assert set(demo.table["level_of_theory"]) == {demo.level_of_theory}
    assert np.isfinite(demo.gaps_eV).all() and demo.gaps_eV.min() >= 0.2
    assert demo.licence == "CC0-1.0"


def test_shipped_gaps_have_no_levels_of_their_own_calculation_as_features(crystals):
    gaps_eV, level = load_gaps(crystals.records, LabelChoice("gap_eV", None))
    assert level == crystals.level_of_theory
    options = {"has_source": True, "levels_installed": True, "bonds_installed": True}
    proposal = propose_for(crystals.records, gaps_eV, level_of_theory=level, **options)
    assert proposal.levels == "none"
    assert propose_for(crystals.records, gaps_eV, **options).levels == BOTH


def test_crystals_have_realistic_densities_which_follow_from_their_cells(crystals):
    densities = [density_g_cm3(r.atoms.numbers, r.atoms.cell.array) for r in crystals.records]
    assert np.allclose(densities, crystals.table["density_g_cm3"], atol=2e-4)
    assert min(densities) >= 1.0 and max(densities) <= 1.8


def test_crystals_have_no_contact_under_four_fifths_of_the_van_der_waals_sum(crystals):
    for row in range(0, len(crystals.records), 16):
        atoms = crystals.records[row].atoms
        z = int(crystals.table["Z"][row])
        contact = closest_contact(
            atoms.numbers, atoms.positions, atoms.cell.array, atoms_per_molecule=len(atoms) // z
        )
        assert contact >= 0.8, crystals.records[row].id
        assert contact == pytest.approx(crystals.table["closest_contact"][row], abs=6e-4)


def test_crystals_have_the_symmetry_of_their_space_group(crystals):
    for row in range(0, len(crystals.records), 16):
        atoms = crystals.records[row].atoms
        group = crystals.table["space_group"][row]
        blocks = atoms.get_scaled_positions(wrap=False).reshape(len(SPACE_GROUPS[group]), -1, 3)
        for (signs, translation), block in zip(SPACE_GROUPS[group], blocks, strict=True):
            apart = block - (blocks[0] * np.array(signs) + np.array(translation))
            assert np.abs((apart - np.round(apart)) @ atoms.cell.array).max() < 1e-3, (
                crystals.records[row].id
            )


def test_manifest_and_readme_contain_the_distributions_of_the_tables(molecules, crystals):
    sets = read_demo_manifest()["sets"]
    readme = (data_folder() / "README.md").read_text(encoding="utf-8")
    for demo in (molecules, crystals):
        assert distributions(demo.table) == sets[demo.name]["distributions"]
        assert len(demo.table) == sets[demo.name]["n"]
        assert markdown_table(sets[demo.name]["distributions"]) in readme
        assert f"{len(demo.table):,}" in readme


def test_crystal_gaps_are_related_to_the_molecules_and_differ_from_them(crystals):
    gap, alone, alone_gfn1 = (
        crystals.table[c] for c in ("gap_eV", "molecule_gap_eV", "molecule_gap_gfn1_eV")
    )
    assert 0.5 < np.corrcoef(gap, alone)[0, 1] < 0.99
    assert 0.03 < (gap - alone_gfn1).std() < 0.5


def test_shipped_files_match_their_checksums_and_are_small():
    assert changed_files(data_folder()) == []
    files = [p for p in data_folder().rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    files = [p for p in files if not {"inorganic", "models"} & set(p.parts)]  # have their own tests
    assert sum(p.stat().st_size for p in files) < 10 * MEGABYTE
    manifest = read_demo_manifest()
    listed = {*manifest["files"], *manifest["source_model"]["files"], "manifest.json", "README.md"}
    assert {
        p.relative_to(data_folder()).as_posix() for p in files if "pictures" not in p.parts
    } == listed


def test_changed_file_is_named_until_it_is_sealed(copied):
    path = copied / "source_model" / "extras.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert changed_files(copied) == ["source_model/extras.safetensors"]
    seal_source_model(copied, how="cut by a test")
    assert changed_files(copied) == []
    assert read_demo_manifest(copied)["source_model"]["how"] == "cut by a test"


def test_missing_file_is_named(copied):
    (copied / "manifest.json").unlink()
    with pytest.raises(
        ArtifactError,
        match=r"manifest\.json: .* cannot be read \(No such file or directory\)",
    ):
        read_demo_manifest(copied)


def test_sample_cifs_are_eight_valid_ones_and_four_with_the_problems_in_the_readme():
    records = read_paths(unlabelled_cifs())
    assert [r.status for r in records] == ["ready"] * 8 + [
        "refused",
        "warning",
        "refused",
        "refused",
    ]
    for record, words in zip(
        records[8:], ("occupancy", "hydrogen", "cut off", "0.10 A apart"), strict=True
    ):
        assert words in record.problem
    readme = (data_folder() / "README.md").read_text(encoding="utf-8")
    assert all(path.name in readme for path in unlabelled_cifs()[8:])


def test_sample_cifs_contain_no_gap():
    assert not [
        path.name for path in unlabelled_cifs() if "gap" in path.read_text(encoding="utf-8").lower()
    ]


def test_source_network_contains_the_files_that_transfers_need():
    source = load_source(demo_source_folder(), verify=False)
    assert source.extras == ("features", "fisher", "variational", "snapshots")
    assert (source.features.n, source.snapshots.rank) == (11_000, 10)
    assert float(source.fisher["bias.3"]) == pytest.approx(
        11_000 / source.features.residual_variance, rel=0.01
    )
    never_seen = ~(source.params["weight.1"] != 0).any(0)
    assert int(never_seen.sum()) == 759
    spread = source.variational.sd["weight.1"]
    assert (
        float(spread[:, never_seen].std()) == 0.0
    )  # the prior's: the molecules say nothing of these weights
    assert float(spread[:, ~never_seen].min()) < 0.5 * float(spread[0, never_seen][0])
    assert not bool(source.snapshots.diagonal["weight.1"][:, never_seen].any())
