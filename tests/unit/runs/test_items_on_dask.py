"""Items on Dask whose worker is killed or that raise; see also `test_elsewhere.py`."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.engines import mapped
from bandgap.foundation.errors import ConfigError
from tests.unit.runs.dask_cluster import Cluster

pytestmark = pytest.mark.slow


def power(x: float) -> np.ndarray:
    return np.full(3, x) ** 1.5


def lost_once(x: float, marks: str) -> np.ndarray:
    """Return a power; the first worker that receives the tenth item is killed."""
    mark = Path(marks) / "lost"
    if x == 10.0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return power(x)


def refused(x: float) -> float:
    if x == 3.0:
        raise ConfigError("3 is not accepted. Give another number.")
    return x


def test_item_of_a_killed_worker_is_computed_again(two_workers: Cluster, tmp_path: Path) -> None:
    powers = list(mapped(lost_once, [(float(x), str(tmp_path)) for x in range(40)]))
    assert (tmp_path / "lost").exists()
    assert [row.tobytes() for row in powers] == [power(float(x)).tobytes() for x in range(40)]


def test_error_of_an_item_is_raised_as_it_was_on_the_worker(two_workers: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"^3 is not accepted\. Give another number\.$"):
        list(mapped(refused, [(float(x),) for x in range(8)]))
