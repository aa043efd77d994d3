"""A table that is interrupted by a full disk never looks finished."""

import subprocess
import sys
from pathlib import Path

import pytest

from bandgap.foundation.errors import BandgapError
from bandgap.predictions.growing import SUFFIX, GrowingTable, rows_in

resource = pytest.importorskip("resource")  # limits of POSIX

GROW = """
import resource, sys
from pathlib import Path
from bandgap.foundation.errors import BandgapError
from bandgap.predictions.growing import GrowingTable

path, limit, chunks = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    other_files = {"structures": path.with_suffix(".xyz")}
    with GrowingTable(path, work="w", made_of=str, other_files=other_files) as table:
        for _ in range(chunks):
            table.commit(10, {"ok": 10}, table="0123456789\\n" * 100, structures="s" * 100)
except BandgapError as error:
    sys.exit(str(error))
"""


def grown(path: Path, *, limit: int, chunks: int = 3) -> str:
    """Write chunks of 1,100 bytes in a process whose files may have so many; return what it says on
    stderr.
    """
    words = [sys.executable, "-c", GROW, str(path), str(limit), str(chunks)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr.strip()


def test_table_whose_first_chunk_does_not_fit_is_marked_as_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    message = grown(path, limit=1_000)
    assert path.stat().st_size == 1_000  # rows that look like those of a table
    assert (tmp_path / f"t.csv{SUFFIX}").is_file() and rows_in(path) == 0
    assert message == (
        f"{path} cannot be written: File too large. It has 0 complete rows and is unfinished. Free "
        "some disk space, or name another folder, and start the same command again."
    )
    assert grown(path, limit=1 << 20) == ""
    assert path.read_text() == "0123456789\n" * 300 and not (tmp_path / f"t.csv{SUFFIX}").exists()


def test_table_is_unchanged_where_the_mark_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("earlier rows\n")
    assert "cannot be written" in grown(path, limit=10)
    assert path.read_text() == "earlier rows\n" and list(tmp_path.iterdir()) == [path]


def test_table_resumes_after_the_chunk_before_the_one_that_did_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    assert "It has 20 complete rows" in grown(path, limit=2_500)
    assert rows_in(path) == 20
    table = GrowingTable(
        path, work="w", made_of=str, other_files={"structures": path.with_suffix(".xyz")}
    )
    assert table.rows == 20


def test_table_of_a_full_disk_is_an_error_of_the_library(tmp_path: Path) -> None:
    """/dev/full is a device on which every write fails as on a full disk."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    other = tmp_path / "s.xyz"
    other.symlink_to("/dev/full")
    table = GrowingTable(
        tmp_path / "t.csv", work="w", made_of=str, other_files={"structures": other}
    )
    with pytest.raises(BandgapError, match="cannot be written: No space left on device"):
        table.commit(1, {}, table="a\n", structures="a\n")
    assert table.rows == 0 and (tmp_path / f"t.csv{SUFFIX}").is_file()
