"""A growing table keeps complete chunks, cuts off incomplete ones, and restarts for
another work.
"""

import json

import pytest

from bandgap.predictions.growing import SUFFIX, GrowingTable, rows_in


class Killed(Exception):
    """The process ends here."""


def opened(path, *, work="w", made_of=str, other=None):
    return GrowingTable(
        path,
        work=work,
        made_of=made_of,
        other_files=None if other is None else {"structures": other},
    )


def grow(path, texts, *, work="w", other=None, torn=b""):
    """Write texts and be killed, with something torn at the end of the file; return the table."""
    table = opened(path, work=work, other=other)
    with pytest.raises(Killed), table:
        for text in texts:
            table.commit(
                1, {"ok": 1}, table=text, **({} if other is None else {"structures": text.upper()})
            )
        with path.open("ab") as file:
            file.write(torn)
        raise Killed
    return table


def test_table_resumes_after_its_last_complete_chunk(tmp_path):
    path = tmp_path / "new" / "t.csv"
    other = tmp_path / "new" / "s.xyz"
    grow(path, ["head\na\n", "b\n"], other=other, torn=b"half a li")
    with opened(path, other=other) as table:
        assert (table.rows, table.counts["ok"]) == (2, 2)
        assert (
            table.note
            == f"{path} already contains 2 rows of this work; writing resumes after them."
        )
        table.commit(1, {"ok": 0, "refused": 1}, table="c\n", structures="C\n")
    assert path.read_text() == "head\na\nb\nc\n" and other.read_text() == "HEAD\nA\nB\nC\n"
    assert not (tmp_path / "new" / f"t.csv{SUFFIX}").exists()
    assert dict(table.counts) == {"ok": 2, "refused": 1}


def test_table_with_all_rows_is_finished_after_a_kill(tmp_path):
    path = tmp_path / "t.csv"
    grow(path, ["a\n", "b\n"], torn=b"c")
    with opened(path) as table:
        assert table.rows == 2
    assert path.read_text() == "a\nb\n" and list(tmp_path.iterdir()) == [path]


def test_table_of_another_work_is_replaced_at_the_first_commit(tmp_path):
    path = tmp_path / "t.csv"
    grow(path, ["old\n", "rows\n"])
    table = opened(path, work="other")
    assert "another model or other options, and is rewritten from the first row" in table.note
    assert path.read_text() == "old\nrows\n"
    with table:
        table.commit(1, {}, table="new\n")
    assert path.read_text() == "new\n"


def test_rows_are_reused_only_where_their_inputs_are_unchanged(tmp_path):
    path = tmp_path / "t.csv"
    calls = []
    grow(path, ["a\n", "b\n"])
    changed = opened(path, made_of=lambda rows: f"other {rows}")
    assert changed.rows == 0 and "was started with other structures" in changed.note
    assert path.read_text() == "a\nb\n" and rows_in(path) == 2

    def of_first_two(rows):
        calls.append(rows)
        return str(rows)

    assert opened(path, made_of=of_first_two).rows == 2 and calls == [2]


@pytest.mark.parametrize("change", ("first byte", "shorter", "gone"))
def test_changed_table_is_rewritten(tmp_path, change):
    path = tmp_path / "t.csv"
    grow(path, ["aaa\n", "bbb\n"])
    if change == "gone":
        path.unlink()
    else:
        path.write_text({"first byte": "xaa\nbbb\n", "shorter": "aaa\nb"}[change])
    table = opened(path)
    assert table.rows == 0 and "was changed since it was started" in table.note


@pytest.mark.parametrize(
    "text",
    (
        "",
        "{",
        "[]",
        '{"work": "w"}',
        '{"work": "w", "rows": 1, "made_of": "1", "files": 3, "counts": {}}',
        '{"work": "w", "rows": 1, "files": {"table": {}}, "counts": {}}',
    ),
)
def test_damaged_mark_is_reported_and_the_table_rewritten(tmp_path, text):
    path = tmp_path / "t.csv"
    grow(path, ["aaa\n"])
    (tmp_path / f"t.csv{SUFFIX}").write_text(text)
    table = opened(path)
    assert table.rows == 0 and "is damaged" in table.note


def test_mark_of_other_files_is_not_resumed(tmp_path):
    path = tmp_path / "t.csv"
    other = tmp_path / "s.xyz"
    grow(path, ["aaa\n"])
    assert opened(path, other=other).rows == 0
    grow(path, ["aaa\n"], other=other)
    assert opened(path).rows == 0
    assert json.loads((tmp_path / f"t.csv{SUFFIX}").read_text())["rows"] == 1
