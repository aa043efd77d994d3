"""A table that grows: what was written whole stays, what was torn is cut off, and another work begins anew."""

import json

import pytest

from bandgap.foundation.errors import InputError
from bandgap.predictions.growing import SUFFIX, GrowingTable, rows_in


class Killed(Exception):
    """The process ends here."""


def opened(path, *, work="w", made_of=str, other=None):
    return GrowingTable(path, work=work, made_of=made_of, others=None if other is None else {"structures": other})


def grow(path, texts, *, work="w", other=None, torn=b""):
    """Write texts and be killed, with something torn at the end of the file; return the table."""
    table = opened(path, work=work, other=other)
    with pytest.raises(Killed), table:
        for text in texts:
            table.commit(1, {"ok": 1}, table=text, **({} if other is None else {"structures": text.upper()}))
        with path.open("ab") as file:
            file.write(torn)
        raise Killed
    return table


def test_table_goes_on_after_its_last_whole_chunk(tmp_path):
    path, other = tmp_path / "new" / "t.csv", tmp_path / "new" / "s.xyz"
    grow(path, ["head\na\n", "b\n"], other=other, torn=b"half a li")
    with opened(path, other=other) as table:
        assert (table.rows, table.counts["ok"]) == (2, 2)
        assert table.note == f"{path} holds 2 rows of this work already; it goes on after them."
        table.commit(1, {"ok": 0, "refused": 1}, table="c\n", structures="C\n")
    assert path.read_text() == "head\na\nb\nc\n" and other.read_text() == "HEAD\nA\nB\nC\n"
    assert not (tmp_path / "new" / f"t.csv{SUFFIX}").exists()
    assert dict(table.counts) == {"ok": 2, "refused": 1}


def test_table_that_was_complete_when_the_process_was_killed_is_only_finished(tmp_path):
    path = tmp_path / "t.csv"
    grow(path, ["a\n", "b\n"], torn=b"c")
    with opened(path) as table:
        assert table.rows == 2
    assert path.read_text() == "a\nb\n" and list(tmp_path.iterdir()) == [path]


def test_table_of_another_work_is_left_until_the_first_rows_and_then_written_anew(tmp_path):
    path = tmp_path / "t.csv"
    grow(path, ["old\n", "rows\n"])
    table = opened(path, work="other")
    assert "another model or other options, and is written anew" in table.note
    assert path.read_text() == "old\nrows\n"
    with table:
        table.commit(1, {}, table="new\n")
    assert path.read_text() == "new\n"


def test_rows_stay_where_what_they_are_made_of_is_as_before(tmp_path):
    path, asked = tmp_path / "t.csv", []
    grow(path, ["a\n", "b\n"])
    changed = opened(path, made_of=lambda rows: f"other {rows}")
    assert changed.rows == 0 and "was begun with other structures" in changed.note
    assert path.read_text() == "a\nb\n" and rows_in(path) == 2

    def of_first_two(rows):
        asked.append(rows)
        return str(rows)

    assert opened(path, made_of=of_first_two).rows == 2 and asked == [2]


def test_note_of_an_earlier_version_is_begun_anew_in_a_sentence(tmp_path):
    path = tmp_path / "t.csv"
    grow(path, ["a\n"])
    beside = tmp_path / f"t.csv{SUFFIX}"
    state = json.loads(beside.read_text())
    del state["made_of"]
    beside.write_text(json.dumps(state))
    table = opened(path)
    assert table.rows == 0 and "by an earlier version" in table.note and table.note.endswith("is written anew.")


@pytest.mark.parametrize("change", ("first byte", "shorter", "gone"))
def test_table_that_was_changed_in_between_is_written_anew(tmp_path, change):
    path = tmp_path / "t.csv"
    grow(path, ["aaa\n", "bbb\n"])
    if change == "gone":
        path.unlink()
    else:
        path.write_text({"first byte": "xaa\nbbb\n", "shorter": "aaa\nb"}[change])
    table = opened(path)
    assert table.rows == 0 and "was changed since it was begun" in table.note


@pytest.mark.parametrize("text", ("", "{", "[]", '{"work": "w"}', '{"work": "w", "rows": 1, "files": 3, "counts": {}}'))
def test_damaged_note_is_said_and_the_table_written_anew(tmp_path, text):
    path = tmp_path / "t.csv"
    grow(path, ["aaa\n"])
    (tmp_path / f"t.csv{SUFFIX}").write_text(text)
    table = opened(path)
    assert table.rows == 0 and "is damaged" in table.note


def test_note_of_an_attempt_with_other_files_is_not_taken_up(tmp_path):
    path, other = tmp_path / "t.csv", tmp_path / "s.xyz"
    grow(path, ["aaa\n"])
    assert opened(path, other=other).rows == 0
    grow(path, ["aaa\n"], other=other)
    assert opened(path).rows == 0
    assert json.loads((tmp_path / f"t.csv{SUFFIX}").read_text())["rows"] == 1


def test_folder_in_the_place_of_the_table_is_refused_before_any_work(tmp_path):
    with pytest.raises(InputError, match="is a folder. Name a file to write"):
        opened(tmp_path)
