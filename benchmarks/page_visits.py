"""Visit the pages of a workspace in this process, and print times of script runs as JSON.

`python -m benchmarks pages` runs this module in a separate process. Streamlit's test runner runs
the script as the server does, without a browser.
"""

import json
import sys
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest

from app.memory import collect_garbage
from bandgap.foundation.machine import peak_memory_bytes
from bandgap.jobs.dashboard import app_folder

HEAVY = ("torch", "dscribe", "ase", "sklearn")
TIMEOUT_S = 120.0


def main() -> None:
    """Read query parameters, number of visits and pages (none: all) from the command line."""
    choices = json.loads(sys.argv[1])
    visits = int(sys.argv[2])
    page_names = sys.argv[3:]
    paths = [
        path
        for path in sorted((app_folder() / "views").glob("*.py"))
        if not page_names or path.stem in page_names
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
    """Return wall-clock and CPU seconds of each visit, and the seconds of the first one."""
    app_test = AppTest.from_file(str(app_folder() / "main.py"), default_timeout=TIMEOUT_S)
    for key, value in choices.items():
        app_test.query_params[key] = value
    app_test.run()
    started = time.perf_counter()
    if page.stem != "home":
        app_test.switch_page(f"views/{page.name}").run()
    first = time.perf_counter() - started
    collect_garbage()  # as the server does every 30 s
    clock = []
    processor = []
    for _ in range(visits):
        clock_before = time.perf_counter()
        processor_before = time.process_time()
        app_test.run()
        clock.append(time.perf_counter() - clock_before)
        processor.append(time.process_time() - processor_before)
    if app_test.exception:
        raise SystemExit(f"{page.stem}: {app_test.exception[0].value}")
    return {"first_s": first, "clock_s": clock, "processor_s": processor}


if __name__ == "__main__":
    main()
