"""Descriptors of new structures, some with elements that the descriptor of a run lacks.

A run without a source has a descriptor for the elements of its labelled structures. Its MBTR has no
grid for other elements; SOAP and pretrained potentials know nearly all. A structure with another
element is therefore described by MBTR as if the atoms of that element were absent, and by the other
blocks with all atoms. Its interval is wider, and it has a warning. It is refused where no other
block describes the surroundings of atoms, and where most of its atoms are of unknown elements.

Measured by `python -m benchmarks unseen-elements`: in predicted standard deviations, the errors of
structures with a withheld element were up to 1.46 times those of others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import elements_of
from bandgap.descriptors import Descriptors, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import Progress, no_progress
from bandgap.predictions.table import Predictions
from bandgap.predictions.withholding import WIDENED, with_wider_rows
from bandgap.runs.stored import Run
from bandgap.structures import StructureRecord
from bandgap.transfer import get_method

# Factor of the standard deviations of structures that are described in part.
WIDEN_FACTOR: Final = 1.5


def with_partly_described(
    run: Run,
    records: Sequence[StructureRecord],
    described: Descriptors,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Descriptors:
    """Return descriptors of records, in part for those with an element that is not known."""
    rows = [i for i, record in enumerate(records) if left_out_elements(run, record)]
    if not rows or not predicts_unknown_elements(run):
        return described
    partly = featurize(
        [records[i] for i in rows],
        replace(run.descriptor, leaves_out_atoms=True),
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    features = np.array(described.features)
    features[rows] = partly.features
    problems = list(described.problems)
    for i, problem in zip(rows, partly.problems, strict=True):
        problems[i] = problem
    return Descriptors(features, tuple(problems), described.n_computed + partly.n_computed)


def predicts_unknown_elements(run: Run) -> bool:
    """Return whether a run predicts structures whose elements its MBTR lacks."""
    if not run.descriptor.terms or get_method(run.manifest["method"]).transfers:
        return False
    return any(block.measures_similarity for block, _ in run.descriptor.blocks)


def left_out_elements(run: Run, record: StructureRecord) -> tuple[str, ...]:
    """Return the elements of a structure that are not in the terms of the run's descriptor."""
    if not run.descriptor.terms:
        return ()
    return tuple(sorted(elements_of(record) - set(run.descriptor.species)))


def sd_factors(run: Run, records: Sequence[StructureRecord]) -> NDArray[np.float64]:
    """Return the factor of the standard deviations of each structure (n,), 1 where all is known."""
    is_partly = [bool(left_out_elements(run, record)) for record in records]
    return np.where(is_partly, WIDEN_FACTOR, 1.0)


def with_left_out_elements(
    run: Run, records: Sequence[StructureRecord], predictions: Predictions
) -> Predictions:
    """Return the predictions with wider intervals of structures that were described in part."""
    left_out = [
        left_out_elements(run, record) if np.isfinite(mean) else ()
        for record, mean in zip(records, predictions.mean_eV, strict=True)
    ]
    problems = [
        "; ".join(filter(None, (text, _sentence(elements) if elements else "")))
        for text, elements in zip(predictions.problem, left_out, strict=True)
    ]
    return with_wider_rows(
        replace(predictions, problem=tuple(problems)),
        np.array([bool(elements) for elements in left_out]),
        factor=WIDEN_FACTOR,
    )


def _sentence(elements: Sequence[str]) -> str:
    """Return the problem of a structure that is described without these elements."""
    return (
        f"Described without its {' and '.join(elements)} atoms, of which this run has not "
        f"learned. {WIDENED} {WIDEN_FACTOR:g} times."
    )
