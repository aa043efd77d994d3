"""The job that computes the map of a data set, by the descriptor of a run or without one."""

from typing import Any

from bandgap.foundation.config import from_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress
from bandgap.jobs.home import Home
from bandgap.jobs.store import Job
from bandgap.jobs.structure_maps import DATASET_DESCRIPTOR, map_path
from bandgap.jobs.tasks.records import dataset_of, spool_records


def structure_map(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Compute coordinates and neighbours of every structure of a data set and store them.

    The descriptors are those of a run, mostly from the cache, or `DATASET_DESCRIPTOR` without one.
    Returns the number of structures.
    """
    from bandgap.descriptors import DescriptorConfig
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.foundation.machine import set_threads
    from bandgap.runs.stored import load_run
    from bandgap.runs.structure_map import save_map
    from bandgap.runs.structure_map import structure_map as computed_map

    set_threads()
    library, dataset = dataset_of(job, home)
    descriptor = from_dict(DescriptorConfig, DATASET_DESCRIPTOR)
    path = map_path(home, dataset.id, DATASET_DESCRIPTOR)
    if run_id := str(job.payload["run"]):
        run = library.run(job.workspace, run_id)
        if run is None:
            raise InputError("This workspace has no such run. Choose a finished run from the list.")
        stored = load_run(home.run_folder(run.id), verify=False)
        descriptor = stored.descriptor
        path = map_path(home, dataset.id, stored.manifest["descriptor"])
    records = spool_records(library, dataset, progress=progress)
    structures = computed_map(
        records, descriptor, cache=DescriptorCache(home.cache), progress=progress
    )
    save_map(path, structures)
    return {"n": len(records)}
