"""Pages and counts of data sets by SQL."""

import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.listing import (
    element_figures,
    element_sets,
    has_metals,
    known_gaps,
    numbers_of,
    other_numbers,
    verdict_page,
)
from bandgap.jobs.rows import Verdict
from bandgap.jobs.structure_filter import StructureFilter


@pytest.fixture
def listed(tmp_path: Path) -> tuple[Library, str]:
    """Three ready waters, a benzene crystal with a warning, and two refused files."""
    library = Library(Home(tmp_path))
    dataset = library.add_dataset(str(uuid.uuid4()), "set")
    rows = [
        ("bad_1%", "refused", "", 0, {}),
        *((f"w{k}", "ready", "H2O", 3, {"gap": 7.0}) for k in range(3)),
    ]
    rows += [
        ("Benzene", "warning", "C24H24", 48, {"gap": 2.0, "energy": -1.0}),
        ("bad2", "refused", "", 0, {}),
    ]
    verdicts = []
    for id, status, formula, n, info in rows:
        verdict = Verdict(id, f"{id}.cif", status, "", formula, n, formula == "C24H24", None, info)
        verdicts.append(verdict)
    library.save_verdicts(dataset.id, verdicts)
    library.save_gaps(
        dataset.id, np.array([np.nan, 1.0, 2.0, np.nan, 3.0, np.nan]), labels={}, level_of_theory=""
    )
    return library, dataset.id


def test_page_begins_with_what_needs_attention_and_keeps_rows(listed: tuple[Library, str]) -> None:
    first_page, total = verdict_page(*listed, limit=4)
    assert total == 6 and [row for row, _ in first_page] == [0, 5, 4, 1]
    second_page, _ = verdict_page(*listed, limit=4, offset=4)
    assert [verdict.id for _, verdict in second_page] == ["w1", "w2"]


@pytest.mark.parametrize(
    ("status", "search", "ids"),
    [
        ("ready", "", ["w0", "w1", "w2"]),
        (None, "benz", ["Benzene"]),
        (None, "h2o", ["w0", "w1", "w2"]),
        (None, "%", ["bad_1%"]),
        (None, "bad_", ["bad_1%"]),
        ("ready", "benzene", []),
    ],
)
def test_page_contains_the_matching_rows(
    listed: tuple[Library, str], status: str | None, search: str, ids: list[str]
) -> None:
    library, dataset = listed
    page, total = verdict_page(library, dataset, StructureFilter(status, search), limit=10)
    assert [verdict.id for _, verdict in page] == ids and total == len(ids)


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        (StructureFilter(elements=("O",)), ["w0", "w1", "w2"]),
        (StructureFilter(elements=("H", "C")), ["Benzene"]),
        (StructureFilter(elements=("C", "O")), []),
        (StructureFilter(gap_eV=(1.5, None)), ["Benzene", "w1"]),
        (StructureFilter(gap_eV=(1.0, 2.0)), ["w0", "w1"]),
        (StructureFilter(n_atoms=(None, 3), status="ready"), ["w0", "w1", "w2"]),
        (StructureFilter(n_atoms=(4, 48)), ["Benzene"]),
    ],
)
def test_page_is_filtered_by_elements_gap_and_size(
    listed: tuple[Library, str], conditions: StructureFilter, ids: list[str]
) -> None:
    library, dataset = listed
    page, total = verdict_page(library, dataset, conditions, limit=10)
    assert [verdict.id for _, verdict in page] == ids and total == len(ids)


def test_element_is_no_part_of_another_symbol(tmp_path: Path) -> None:
    library = Library(Home(tmp_path))
    dataset = library.add_dataset(str(uuid.uuid4()), "set").id
    formulas = ["CaO", "CO2", "C", "Ca", "HoC", "InSb", "I2", "SnI4"]
    library.save_verdicts(
        dataset, [Verdict(f, "x.cif", "ready", "", f, 1, True, None, {}) for f in formulas]
    )
    for symbol, ids in (("C", {"CO2", "C", "HoC"}), ("I", {"I2", "SnI4"}), ("O", {"CaO", "CO2"})):
        page, _ = verdict_page(library, dataset, StructureFilter(elements=(symbol,)), limit=10)
        assert {verdict.id for _, verdict in page} == ids
    with pytest.raises(InputError, match="Accepted: symbols such as O or Pb"):
        StructureFilter(elements=("*",))


def test_figures_of_elements_are_numbers_of_structures_and_mean_gaps(
    listed: tuple[Library, str],
) -> None:
    figures = element_figures(*listed)
    assert list(figures) == ["H", "O", "C"]
    assert [figure.count for figure in figures.values()] == [4, 3, 1]
    assert figures["O"].mean_gap_eV == pytest.approx(1.5)  # of 1 and 2 eV
    assert figures["H"].mean_gap_eV == pytest.approx(2.0) and figures["C"].mean_gap_eV == 3.0


def test_page_of_100_000_structures_is_filtered_in_less_than_a_second(tmp_path: Path) -> None:
    library = Library(Home(tmp_path))
    dataset = library.add_dataset(str(uuid.uuid4()), "set").id
    verdicts = (
        Verdict(f"s{k}", f"{k}.cif", "ready", "", f"C{k}Pb2O", k % 300 + 1, True, k / 1e4, {})
        for k in range(100_000)
    )
    library.save_verdicts(dataset, verdicts)
    conditions = StructureFilter(elements=("Pb",), gap_eV=(1.0, 2.0), n_atoms=(None, 100))
    start = time.process_time()
    page, total = verdict_page(library, dataset, conditions, limit=200)
    assert time.process_time() - start < 1.0
    assert len(page) == 200 and 3_000 < total < 4_000


def test_sets_of_elements_are_those_of_structures_with_gaps(listed: tuple[Library, str]) -> None:
    """Two of the three waters and the benzene."""
    assert element_sets(*listed) == {("H", "O"): 2, ("C", "H"): 1}


@pytest.mark.parametrize(
    ("n_metals", "n_others", "contains"), [(10, 10, True), (9, 11, False), (11, 9, False)]
)
def test_ten_metals_and_ten_semiconductors_that_are_not_refused_are_enough(
    tmp_path: Path, n_metals: int, n_others: int, contains: bool
) -> None:
    library = Library(Home(tmp_path))
    dataset = library.add_dataset(str(uuid.uuid4()), "set").id
    statuses = ["ready"] * (n_metals + n_others) + ["refused"] * 2 + ["ready"]
    library.save_verdicts(
        dataset,
        [
            Verdict(f"s{k}", f"{k}.cif", status, "", "NaCl", 2, True, None, {})
            for k, status in enumerate(statuses)
        ],
    )
    gaps = np.array([0.001] * n_metals + [0.0011] * n_others + [0.0, 1.0, np.nan])
    library.save_gaps(dataset, gaps, labels={}, level_of_theory="PBE")
    assert has_metals(library, dataset) is contains


def test_known_gaps_are_of_structures_with_the_elements(listed: tuple[Library, str]) -> None:
    assert sorted(known_gaps(*listed).tolist()) == [1.0, 2.0, 3.0]
    assert known_gaps(*listed, ("C",)).tolist() == [3.0]


def test_number_that_is_the_known_gap_is_no_other_number(listed: tuple[Library, str]) -> None:
    library, dataset = listed
    numbers = numbers_of(library, dataset)
    assert other_numbers(library, dataset) == numbers and "gap" in numbers
    gaps = np.array([v.info.get("gap", np.nan) for v in library.verdicts(dataset)])
    library.save_gaps(dataset, gaps, labels={"source": "gap"}, level_of_theory="PBE")
    assert set(other_numbers(library, dataset)) == set(numbers) - {"gap"}
    library.save_gaps(dataset, gaps + 0.1, labels={"source": "gap"}, level_of_theory="PBE")
    assert other_numbers(library, dataset) == numbers
