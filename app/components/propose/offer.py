"""Whether molecules are proposed: only where the data are organic."""

from app.components.shared import stores
from bandgap.jobs.rows import Dataset
from bandgap.sources.proposed import Target


def is_organic(dataset: Dataset) -> bool:
    """Return whether most labelled structures are organic molecules or crystals of them."""
    return Target(stores.elements(dataset)).is_organic
