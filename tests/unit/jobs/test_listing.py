"""Pages and counts of data sets by SQL."""

import uuid
from pathlib import Path

import numpy as np
import pytest

from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.listing import element_sets, first_usable, overview, row_verdict, verdict_page
from bandgap.jobs.rows import Verdict


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
    page, total = verdict_page(library, dataset, status=status, search=search, limit=10)
    assert [verdict.id for _, verdict in page] == ids and total == len(ids)


def test_sets_of_elements_are_those_of_structures_with_gaps(listed: tuple[Library, str]) -> None:
    """Two of the three waters and the benzene."""
    assert element_sets(*listed) == {("H", "O"): 2, ("C", "H"): 1}


def test_overview_counts_structures_and_not_atoms(listed: tuple[Library, str]) -> None:
    summary = overview(*listed)
    assert summary.elements == {"H": 4, "O": 3, "C": 1}
    assert (summary.crystals, summary.molecules) == (1, 3)
    assert sorted(summary.n_atoms.tolist()) == [3, 3, 3, 48] and sorted(
        summary.gaps_eV.tolist()
    ) == [
        1.0,
        2.0,
        3.0,
    ]
    assert summary.numbers == {"gap": 4, "energy": 1}


def test_single_rows(listed: tuple[Library, str]) -> None:
    assert first_usable(*listed) == 1
    verdict = row_verdict(*listed, 4)
    assert verdict is not None and (verdict.id, verdict.gap_eV, verdict.periodic) == (
        "Benzene",
        3.0,
        True,
    )
    assert row_verdict(*listed, 99) is None
