"""Items on Dask that raise; `test_elsewhere.py` has those whose worker is killed."""

import pytest

from bandgap.foundation.engines import mapped
from bandgap.foundation.errors import ConfigError
from tests.unit.runs.dask_cluster import Cluster

pytestmark = pytest.mark.slow


def refused(x: float) -> float:
    if x == 3.0:
        raise ConfigError("3 is not accepted. Give another number.")
    return x


def test_error_of_an_item_is_raised_as_it_was_on_the_worker(two_workers: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"^3 is not accepted\. Give another number\.$"):
        list(mapped(refused, [(float(x),) for x in range(8)]))
