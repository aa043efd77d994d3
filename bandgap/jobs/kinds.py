"""The kinds of jobs: what a message calls one, its lane, and its limits.

`bandgap.jobs.tasks` has the function of each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Lane = Literal["short", "long"]


@dataclass(frozen=True)
class JobKind:
    """A kind of job.

    Attributes
    ----------
    noun
        What a message calls it: "The {noun} is finished."
    lane
        The queue in which it waits; jobs of the short one do not wait for a training.
    reads_files
        Whether it reads files of users: it then has stricter limits of time and memory.
    fills_disk
        Whether its result takes much space: it is not started where the quota is reached.
    """

    noun: str
    lane: Lane = "short"
    reads_files: bool = False
    fills_disk: bool = False


KINDS: Final[Mapping[str, JobKind]] = {
    "check": JobKind("check", reads_files=True),
    "import_demo": JobKind("check", reads_files=True),
    "import_folder": JobKind("check", reads_files=True),
    "read_calculations": JobKind("reading of calculations", reads_files=True),
    "label_calculations": JobKind("check", reads_files=True),
    "shapes": JobKind("reading", reads_files=True),
    "transfer": JobKind("training", lane="long", fills_disk=True),
    "predict": JobKind("prediction", fills_disk=True),
    "propose": JobKind("proposal of molecules", lane="long", fills_disk=True),
    "train_source": JobKind("training of the source model", lane="long", fills_disk=True),
    "add_source": JobKind("check of the source model", reads_files=True),
    "add_run": JobKind("check of the run", reads_files=True),
    "learning_curve": JobKind("learning curve", lane="long"),
    "explain": JobKind("explanation"),
}
