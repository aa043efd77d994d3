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
    library.save_verdicts(
        dataset.id,
        [Verdict(i, f"{i}.cif", s, "", f, n, f == "C24H24", None, x) for i, s, f, n, x in rows],  # type: ignore[arg-type]
    )
    library.save_gaps(
        dataset.id, np.array([np.nan, 1.0, 2.0, np.nan, 3.0, np.nan]), labels={}, level_of_theory=""
    )
    return library, dataset.id


def test_page_begins_with_what_needs_attention_and_keeps_rows(listed: tuple[Library, str]) -> None:
    found, total = verdict_page(*listed, limit=4)
    assert total == 6 and [row for row, _ in found] == [0, 5, 4, 1]
    rest, _ = verdict_page(*listed, limit=4, offset=4)
    assert [verdict.id for _, verdict in rest] == ["w1", "w2"]


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
def test_page_holds_what_fits(
    listed: tuple[Library, str], status: str | None, search: str, ids: list[str]
) -> None:
    found, total = verdict_page(*listed, status=status, search=search, limit=10)  # type: ignore[arg-type]
    assert [verdict.id for _, verdict in found] == ids and total == len(ids)


def test_sets_of_elements_are_those_of_structures_with_gaps(listed: tuple[Library, str]) -> None:
    """Two of the three waters and the benzene."""
    assert element_sets(*listed) == {("H", "O"): 2, ("C", "H"): 1}


def test_overview_counts_structures_and_not_atoms(listed: tuple[Library, str]) -> None:
    found = overview(*listed)
    assert found.elements == {"H": 4, "O": 3, "C": 1}
    assert (found.crystals, found.molecules) == (1, 3)
    assert sorted(found.n_atoms.tolist()) == [3, 3, 3, 48] and sorted(found.gaps_eV.tolist()) == [
        1.0,
        2.0,
        3.0,
    ]
    assert found.numbers == {"gap": 4, "energy": 1}


def test_single_rows(listed: tuple[Library, str]) -> None:
    assert first_usable(*listed) == 1
    verdict = row_verdict(*listed, 4)
    assert verdict is not None and (verdict.id, verdict.gap_eV, verdict.periodic) == (
        "Benzene",
        3.0,
        True,
    )
    assert row_verdict(*listed, 99) is None
