"""What the address names and the workspace does not hold: said once, and then no longer named."""

import session

from bandgap.foundation.errors import InputError
from components.shared import stores

_WHY = (
    "It was deleted, or it belongs to another workspace, which opens by the whole address that you were given, with "
    "its ws=... part."
)


def check() -> None:
    """Say so when the run or the data set of the address is not one of this workspace; others' are never looked up."""
    gone = [name for name, there in (("run", _has_run()), ("data set", _has_dataset())) if not there]
    if not gone:
        return
    session.tell(
        f"This workspace does not hold the {' and the '.join(gone)} that the address names. {_WHY}", tone="warning"
    )
    if "run" in gone:
        session.choose("run", "")
        session.choose("prediction", "")
    if "data set" in gone:
        session.choose("data", "")


def _has_run() -> bool:
    run = session.chosen("run")
    return not run or stores.library().run(session.workspace(), run) is not None


def _has_dataset() -> bool:
    dataset = session.chosen("data")
    if not dataset:
        return True
    try:
        stores.library().dataset(session.workspace(), dataset)
    except InputError:
        return False
    return True
