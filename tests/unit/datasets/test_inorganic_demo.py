"""The shipped inorganic demo: crystals of the Materials Project, licence and source network."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bandgap.datasets.demo import (
    HELD_OUT,
    data_folder,
    inorganic_folder,
    inorganic_source_folder,
    load_inorganic,
    read_demo_manifest,
)
from bandgap.datasets.gaps import levels_of_records
from bandgap.sources.stored import load_source
from bandgap.structures import read_paths
from bandgap.structures.formula import reduced_formula
from data.making.materials_project import CIFS, GROUPS, TABLE
from data.making.shipping import changed_files

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def demos():
    return {name: load_inorganic(name) for name in ("source", "target")}


def test_target_contains_carbon_and_hydrogen_and_the_source_never_both(demos):
    both = {
        name: [{"C", "H"} <= set(r.atoms.symbols) for r in demo.records]
        for name, demo in demos.items()
    }
    assert (len(both["source"]), any(both["source"])) == (2_191, False)
    assert (len(both["target"]), all(both["target"])) == (209, True)


@pytest.mark.parametrize("name", ["source", "target"])
def test_records_agree_with_their_rows_and_with_the_manifest(name, demos):
    demo = demos[name]
    entry = read_demo_manifest(inorganic_folder())["sets"][name]
    assert not [r.id for r in demo.records if r.status == "refused"]
    assert [reduced_formula(r.atoms.symbols) for r in demo.records] == demo.table[
        "formula"
    ].tolist()
    assert [r.info["gap_eV"] for r in demo.records] == demo.gaps_eV.tolist()
    assert all(r.periodic for r in demo.records) and (demo.gaps_eV > 0).all()
    assert (demo.level_of_theory, demo.licence) == ("PBE", "CC-BY-4.0")
    assert levels_of_records(demo.records) == ("PBE",) == tuple(set(demo.table["level_of_theory"]))
    assert entry["elements"] == sorted({s for r in demo.records for s in r.atoms.symbols})
    assert entry["distributions"]["gap_eV"]["mean"] == pytest.approx(demo.gaps_eV.mean(), abs=1e-4)
    assert entry["held_out"] == demo.table["id"][demo.table["part"] == HELD_OUT].tolist()


def test_held_out_and_training_crystals_share_no_family_and_no_formula_is_repeated(demos):
    """A family is a formula with the groups of the periodic table instead of the symbols."""
    place = {symbol: k for k, group in enumerate(GROUPS) for symbol in group.split()}
    formulas = [reduced_formula(r.atoms.symbols) for demo in demos.values() for r in demo.records]
    assert len(set(formulas)) == len(formulas) == 2_400
    for name, n_held_out in (("source", 191), ("target", 69)):
        parts = {HELD_OUT: set(), "learned": set()}
        for record, part in zip(demos[name].records, demos[name].table["part"], strict=True):
            numbers = Counter(place.get(s, s) for s in record.atoms.symbols)
            parts[part].add(
                frozenset((k, n // math.gcd(*numbers.values())) for k, n in numbers.items())
            )
        assert not parts[HELD_OUT] & parts["learned"]
        assert int((demos[name].table["part"] == HELD_OUT).sum()) == n_held_out


def test_files_match_their_checksums_without_others_and_are_below_four_megabytes():
    folder = inorganic_folder()
    manifest = read_demo_manifest(folder)
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    assert changed_files(folder) == []
    assert set(files) == {*manifest["files"], *manifest["source_model"]["files"], "manifest.json"}
    assert sum(p.stat().st_size for p in files.values()) < 4 * MEGABYTE


def test_attribution_and_licence_are_in_manifest_card_and_readme():
    manifest = read_demo_manifest(inorganic_folder())
    card = load_source(inorganic_source_folder(), verify=False, extras=False).card
    readme = (data_folder() / "README.md").read_text(encoding="utf-8")
    for text in (manifest["attribution"], card.licence, readme):
        for part in (
            "Materials Project",
            "https://materialsproject.org",
            "APL Materials 1, 011002",
            "CC BY 4.0",
        ):
            assert part in text
    assert "rounded" in manifest["changes"]  # CC BY asks that changes are named


def test_source_was_trained_on_the_learned_part_and_has_a_variational_posterior(demos):
    source = load_source(inorganic_source_folder())  # its self-check describes five crystals again
    assert (
        source.card.n_structures == int((demos["source"].table["part"] != HELD_OUT).sum()) == 2_000
    )
    assert set(demos["source"].table["id"][demos["source"].table["part"] == HELD_OUT]).isdisjoint(
        row["id"]
        for row in json.loads((inorganic_source_folder() / "manifest.json").read_text())[
            "references"
        ]
    )
    assert source.extras == ("features", "fisher", "variational")
    assert source.card.level_of_theory == "PBE"


@pytest.mark.slow
@pytest.mark.data
def test_shipped_crystals_are_those_of_the_test_data(test_data, demos):
    """Another reader gives the same gaps, and volumes that differ only by rounding."""
    raw: Path = test_data / "mp_crystals_pbe"
    table = pd.read_csv(raw / TABLE).set_index("id")
    cells = {record.id: record.atoms.cell.volume for record in read_paths([raw / CIFS])}
    for demo in demos.values():
        assert demo.gaps_eV.tolist() == table.loc[demo.table["id"], "gap_eV"].tolist()
        volumes = [record.atoms.cell.volume for record in demo.records]
        np.testing.assert_allclose(volumes, [cells[i] for i in demo.table["id"]], rtol=1e-4)
        both = demo.table["id"].map(table["has_C_and_H"])
        assert both.nunique() == 1
