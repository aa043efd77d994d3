"""Times of script runs: visits the pages of a workspace again and again in this process and prints them as JSON.

For `python -m benchmarks pages`, which runs this module in a process of its own. Streamlit's test runner runs
the script as the server does, without a browser.
"""

import json
import sys
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest

from bandgap.foundation.machine import peak_memory_bytes
from bandgap.jobs.dashboard import app_folder

HEAVY = ("torch", "dscribe", "ase", "sklearn")
TIMEOUT_S = 120.0


def main() -> None:
    """Read the query parameters, the number of visits and the pages (none: all of them) from the command line."""
    choices, visits, wanted = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    paths = [
        path
        for path in sorted((app_folder() / "views").glob("*.py"))
        if not wanted or path.stem in wanted
    ]
    pages = {path.stem: visited(path, choices, visits) for path in paths}
    peak = peak_memory_bytes()["process"]
    result = {
        "pages": pages,
        "memory_MB": (peak or 0) / 1e6,
        "heavy": [m for m in HEAVY if m in sys.modules],
    }
    sys.stdout.write(json.dumps(result) + "\n")


def visited(page: Path, choices: dict[str, str], visits: int) -> dict[str, list[float] | float]:
    """Return the seconds on the clock and of the processor of every visit, and those of the first one."""
    at = AppTest.from_file(str(app_folder() / "main.py"), default_timeout=TIMEOUT_S)
    for key, value in choices.items():
        at.query_params[key] = value
    at.run()
    started = time.perf_counter()
    if page.stem != "home":
        at.switch_page(f"views/{page.name}").run()
    first = time.perf_counter() - started
    clock, processor = [], []
    for _ in range(visits):
        before, used = time.perf_counter(), time.process_time()
        at.run()
        clock.append(time.perf_counter() - before)
        processor.append(time.process_time() - used)
    if at.exception:
        raise SystemExit(f"{page.stem}: {at.exception[0].value}")
    return {"first_s": first, "clock_s": clock, "processor_s": processor}


if __name__ == "__main__":
    main()
