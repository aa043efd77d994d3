"""Randomly damaged tables of labels and OE62 files give valid values or one sentence."""

import copy
import functools
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from bandgap.datasets import split_json
from bandgap.datasets.labels import match_labels, read_labels
from bandgap.datasets.oe62 import LEVELS, read_oe62
from bandgap.foundation.errors import InputError
from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.structures.neighbours import CLOSEST_ANGSTROM
from tests.mutations import BYTES, Random, assert_sentence, damaged, run_mutations
from tests.unit.datasets.test_oe62 import COLUMNS, ROWS

TABLES = [
    text.encode()
    for text in (
        "id,formula,gap_eV\nKAXCUK,C10H8,3.25\n00011,C6H6,4.5\n00012,C6H6,\n",
        'id;file;"band gap (Ha)";theory\na;a.cif;0,12;PBE\nb;b.cif;0,2;"PBE; vdW"\n\n'
        "c;x/c.cif;0.1;GW\n",
        "file\tEg/eV\tenergy_meV\na.cif\t1\t5\nb.cif\t2e0\t6\na.cif\t1\t5\n",
        '\ufeffstructure_id,HOMO-LUMO gap / Hartree\r\n"a,b",.1\r\n\'c\',1e-1\r\n"d\ne",0\r\n',
    )
]
# fmt: off
UNUSUAL = [
    None, True, {}, [], [[]], [[[]]], "", "x", "1", -1, 0, 1e308, -1e308, float("nan"),
    float("inf"), 10**400, 1e-320, [None], [True], ["x"], [10**400], {"a": {}}, "\x00", "\ud800",
    "5" * 5000, [1e308], [-1e308],
]
# fmt: on


def check_table(rng: Random) -> None:
    """Read a damaged table with a right or wrong unit or column, and match it to structures."""
    data = damaged(rng, rng.choice(TABLES), TABLES)
    unit: Any = rng.choice((None, None, None, "eV", "Hartree", "meV"))
    column = rng.choice((None, None, None, "gap_eV", "id", "", "x"))
    try:
        labels = read_labels(data, unit=unit, column=column, name="gaps.csv")
        matched = match_labels(
            ["a", "b", "00011", "KAXCUK"], ["a.cif", "x/b.cif", "", "q.cif"], labels
        )
    except InputError as error:
        assert_sentence(str(error))
        return
    assert len(labels) > 0
    assert np.isfinite(labels.gaps_eV).all()
    assert labels.gaps_eV.min() >= 0.0 and labels.gaps_eV.max() <= LARGEST_GAP_EV
    assert {len(names) for names in (labels.ids, labels.files) if names} == {len(labels)}
    assert matched.n_matched + len(matched.unmatched_structures) == 4
    for text in (*labels.problems, *matched.problems, matched.summary):
        assert_sentence(text)


@functools.cache
def published() -> dict[str, Any]:
    return {"columns": COLUMNS, "index": list(ROWS), "data": list(ROWS.values())}


def damaged_oe62(rng: Random) -> bytes:
    """Return a file with a wrong value, a damaged geometry or damaged text."""
    table = copy.deepcopy(published())
    if rng.random() < 0.7:
        for _ in range(rng.choice((1, 1, 3))):
            places = (table, table["columns"], table["index"], table["data"], *table["data"] * 4)
            place = rng.choice([place for place in places if place])
            key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
            place[key] = copy.deepcopy(rng.choice(UNUSUAL))
            if not all(
                isinstance(part, list) for part in (table, *table.values()) if part is not table
            ):
                break
            table["data"] = [
                row if isinstance(row, list) and row else [0] for row in table["data"]
            ] or [[0]]
    for row in table["data"] if isinstance(table["data"], list) else []:
        if (
            isinstance(row, list)
            and len(row) > 4
            and isinstance(row[4], str)
            and rng.random() < 0.5
        ):
            geometry = row[4].encode("utf-8", errors="replace")
            row[4] = damaged(rng, geometry, [geometry]).decode("utf-8", errors="replace")
    text = json.dumps(table, indent=rng.choice((None, None, 1)))
    if rng.random() < 0.1:
        text = text.replace(
            rng.choice(("[", "null", '"', "1")), rng.choice(("[", '{"a":')) * 100_000, 1
        )
    data = text.encode()
    return damaged(rng, data, [data]) if rng.random() < 0.4 else data


def check_oe62(rng: Random, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a damaged file in chunks of any size, at any level of theory."""
    data = damaged_oe62(rng)
    if rng.random() < 0.15:
        data = gzip.compress(data, 1, mtime=0)
        data = rng.choice(BYTES)(rng, data, [data]) if rng.random() < 0.7 else data
    path.write_bytes(data)
    monkeypatch.setattr(split_json, "_CHUNK", rng.choice((100, 1000, 1 << 23)))
    try:
        molecules = read_oe62(path, level=rng.choice(list(LEVELS)))
    except InputError as error:
        assert_sentence(str(error))
        return
    assert_sentence(molecules.summary)
    assert np.isfinite(molecules.gaps_eV).all() and (molecules.gaps_eV >= 0).all()
    assert (
        len({record.id for record in molecules.records})
        == len(molecules.records)
        == len(molecules.gaps_eV)
    )
    for dropped in molecules.dropped:
        assert dropped.reason.isprintable() and dropped.id
    for record in molecules.records:
        assert record.atoms is not None and record.status == "ready" and len(record.atoms) > 0
        assert np.isfinite(record.atoms.positions).all()
        assert pdist(record.atoms.positions).min(initial=np.inf) >= CLOSEST_ANGSTROM - 1e-9


COUNTS = pytest.mark.parametrize(
    ("count", "fresh"),
    [(300, False), pytest.param(15_000, True, marks=[pytest.mark.fuzz, pytest.mark.soak])],
    ids=["few", "many"],
)


@COUNTS
def test_damaged_tables_of_labels_give_gaps_or_a_reason(
    count: int, fresh: bool, capsys: pytest.CaptureFixture[str]
):
    run_mutations(check_table, count=count, fresh=fresh, capsys=capsys)


@COUNTS
def test_damaged_files_of_oe62_give_valid_molecules_or_a_reason(
    count: int,
    fresh: bool,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    check = functools.partial(check_oe62, path=tmp_path / "df.json", monkeypatch=monkeypatch)
    run_mutations(check, count=count, fresh=fresh, capsys=capsys)
