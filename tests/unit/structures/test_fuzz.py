"""Whatever the bytes and the name, reading raises nothing and gives at least one verdict."""

import gzip

import hypothesis.strategies as st
from hypothesis import HealthCheck, example, given, settings

from bandgap.structures import Limits, StructureRecord, read_structures
from tests.unit.structures.samples import AIMS, METHANE_XYZ, PDB, POSCAR, RES, cif
from tests.unit.structures.test_archives import zipped

EXTENDED = METHANE_XYZ.replace(
    "methane", 'Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 id=007 gap_eV=1.5'
)
VALID = [text.encode() for text in (cif() + cif(name="b"), METHANE_XYZ * 2, EXTENDED, POSCAR, AIMS, RES, PDB)]
VALID += [zipped({"a.cif": cif(), "m.xyz": METHANE_XYZ}), gzip.compress(METHANE_XYZ.encode(), mtime=0)]
NAMES = ["a.cif", "a.xyz", "POSCAR", "geometry.in", "a.res", "a.pdb", "a.zip", "a.xyz.gz", "a", "", "x/..", "a.txt"]
TOKENS = [
    "5",
    "-1",
    "0",
    "nan",
    "1e999",
    "'",
    '"',
    ";",
    "loop_",
    "data_x",
    "\n",
    "\n\n",
    " ",
    "=",
    "\x00",
    "H",
    "=\n",
    "_",
]
FEW = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SMALL = Limits(max_atoms=100, max_structures=50, max_file_bytes=100_000, max_archive_bytes=200_000)


def assert_verdicts(records: list[StructureRecord]) -> None:
    assert records
    assert len({record.id for record in records}) == len(records)
    for record in records:
        assert record.status in ("ready", "warning", "refused")
        assert (record.atoms is None) == (record.status == "refused")
        assert "cannot be read as" not in record.problem
        assert record.problem.isprintable()
        assert record.verdict


@FEW
@given(st.binary(max_size=400), st.sampled_from(NAMES))
@example(b"\x1f\x8b", "a.gz")
@example(b"PK\x03\x04", "a.zip")
@example(b"\xff\xfe\x00", "a.cif")
def test_arbitrary_bytes_give_verdicts(data: bytes, name: str):
    assert_verdicts(read_structures(data, name, limits=SMALL))


@FEW
@given(st.text(max_size=300), st.sampled_from(NAMES))
def test_arbitrary_text_gives_verdicts(text: str, name: str):
    assert_verdicts(read_structures(text.encode("utf-8", errors="replace"), name, limits=SMALL))


@FEW
@given(st.sampled_from(VALID), st.floats(0, 1), st.sampled_from(NAMES))
def test_truncated_valid_files_give_verdicts(data: bytes, share: float, name: str):
    assert_verdicts(read_structures(data[: int(share * len(data))], name, limits=SMALL))


@settings(FEW, max_examples=400)
@given(st.sampled_from(VALID), st.lists(st.tuples(st.floats(0, 1), st.sampled_from(TOKENS)), min_size=1, max_size=4))
def test_valid_files_with_tokens_replaced_give_verdicts(data: bytes, changes: list[tuple[float, str]]):
    for share, token in changes:
        at = int(share * len(data))
        data = data[:at] + token.encode() + data[at + len(token) :]
    assert_verdicts(read_structures(data, "unnamed", limits=SMALL))


@settings(FEW, max_examples=200)
@given(st.sampled_from(VALID), st.randoms(use_true_random=False))
def test_valid_files_with_lines_shuffled_or_dropped_give_verdicts(data: bytes, random):
    lines = data.split(b"\n")
    kept = [line for line in lines if random.random() > 0.1]
    if random.random() < 0.3:
        random.shuffle(kept)
    assert_verdicts(read_structures(b"\n".join(kept), "unnamed", limits=SMALL))
