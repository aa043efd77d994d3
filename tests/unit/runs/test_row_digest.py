"""What rows are made of: the first ones alone, and with everything that they depend on."""

import numpy as np

from bandgap.runs.row_digest import RowDigest
from bandgap.structures import read_structures
from bandgap.structures.spool import Spool
from tests.unit.structures.samples import METHANE_XYZ


def spool(*comments: str) -> Spool:
    return Spool(
        read_structures(
            "".join(METHANE_XYZ.replace("methane", c) for c in comments).encode(), "a.xyz"
        )
    )


def test_digest_is_that_of_the_first_rows_however_it_is_asked_for():
    records = spool("id=a", "id=b", "id=c")
    baseline = np.array([1.0, 2.0, np.nan])
    step_by_step = RowDigest(records, baseline)
    at_once = RowDigest(records, baseline)
    digests = [step_by_step(rows) for rows in (0, 1, 2, 3)]
    assert len(set(digests)) == 4
    assert [at_once(rows) for rows in (3, 1, 2, 0)] == [digests[k] for k in (3, 1, 2, 0)]
    assert step_by_step(4) == ""


def test_digest_changes_with_what_comes_before_and_not_with_what_comes_after():
    baseline = np.array([1.0, 2.0, 3.0])
    of_two = RowDigest(spool("id=a", "id=b", "id=c"), baseline)(2)
    assert (
        RowDigest(spool("id=a", "id=b", "id=x k=1", "id=y"), np.array([1.0, 2.0, 7.0, 8.0]))(2)
        == of_two
    )
    for other in (
        RowDigest(spool("id=x", "id=b", "id=c"), baseline),
        RowDigest(spool("id=a", "id=b k=1", "id=c"), baseline),
        RowDigest(spool("id=a", "id=b", "id=c"), np.array([1.0, 2.5, 3.0])),
        RowDigest(spool("id=a", "id=b", "id=c")),
    ):
        assert other(2) != of_two
