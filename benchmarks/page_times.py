"""Times and memory of repeated visits of pages, in a separate process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.errors import BandgapError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.home import Home
from benchmarks.sample_workspace import add_predicted, add_trained

CHECKOUT = Path(__file__).resolve().parents[1]
VISITS = 5  # Of a page with the result of many structures.


def visit(
    home: Home, choices: Mapping[str, str], *, visits: int, pages: Sequence[str] = ()
) -> dict[str, Any]:
    """Return times of visits by page, peak memory (MB) and heavy modules of the process.

    Parameters
    ----------
    choices
        Query parameters of the pages.
    pages
        Names of the pages; all pages if it is empty.

    Raises
    ------
    BandgapError
        If a page shows an error.
    """
    completed = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.page_visits",
            json.dumps(dict(choices)),
            str(visits),
            *pages,
        ],
        cwd=CHECKOUT,
        env={**os.environ, "BANDGAP_HOME": str(home.folder.resolve()), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise BandgapError(
            f"The pages could not be visited: {completed.stderr.strip().splitlines()[-1:]}"
        )
    result: dict[str, Any] = json.loads(completed.stdout.strip().splitlines()[-1])
    return result


class PageScale:
    """A workspace of the dashboard with one run, for predictions and visits of pages."""

    def __init__(self, folder: Path, pages: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self._home = Home(folder)
        self._pages = pages
        self._workspace, self._run = add_trained(self._home)

    def __call__(
        self, file: Path, size: int, progress: Progress
    ) -> Iterator[tuple[str, float, float, int]]:
        """Yield name, wall-clock seconds, CPU seconds and peak memory (bytes) of each page.

        Jobs of the dashboard first check and predict the structures of the file. Seconds are
        medians over visits.
        """
        progress(Update(f"jobs with {size:,} structures"))
        dataset, prediction = add_predicted(self._home, self._workspace, self._run, file)
        choices = {
            "ws": self._workspace,
            "data": dataset,
            "run": self._run,
            "prediction": prediction,
        }
        for page in self._pages:
            progress(Update(f"page {page} with {size:,} structures"))
            result = visit(self._home, choices, visits=VISITS, pages=[page])
            times = result["pages"][page]
            clock, processor = (
                float(np.median(times[name])) for name in ("clock_s", "processor_s")
            )
            yield f"page {page}", clock, processor, int(1e6 * result["memory_MB"])
