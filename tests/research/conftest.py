"""The problems of the tests of methods and proposals, for those of research."""

from tests.unit.conftest import joint_folder, joint_sets, source_folder, world
from tests.unit.proposals.conftest import molecules
from tests.unit.transfer.conftest import knowing_source, source_of, target

__all__ = [
    "joint_folder",
    "joint_sets",
    "knowing_source",
    "molecules",
    "source_folder",
    "source_of",
    "target",
    "world",
]
