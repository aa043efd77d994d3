"""The kinds of jobs, each a thin layer over functions of the library.

Slow imports are inside the functions, so that only the job's process executes them.

Not here: the table of jobs, and the process that runs one.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bandgap.jobs.tasks import (
    additions,
    calculations,
    data,
    explanation,
    learning_curve,
    prediction,
    proposing,
    sources,
    transfer,
)
from bandgap.jobs.tasks.records import Work

Task = Callable[[Work], dict[str, Any]]

TASKS: Mapping[str, Task] = {
    "check": data.check,
    "import_demo": data.import_demo,
    "import_folder": data.import_folder,
    "read_calculations": calculations.read_calculations,
    "label_calculations": calculations.label_calculations,
    "shapes": data.shapes,
    "transfer": transfer.transfer,
    "predict": prediction.predict,
    "propose": proposing.propose,
    "train_source": sources.train_source,
    "add_source": additions.add_source,
    "add_run": additions.add_run,
    "learning_curve": learning_curve.learning_curve,
    "explain": explanation.explain,
}
