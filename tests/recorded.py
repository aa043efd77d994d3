"""What statistical tests compare chains with: moments computed once, at length, by the code that stands beside them.

They are files of tests/recorded. `BANDGAP_RECORD=1 pytest -m soak -k recorded` computes and writes them anew; without
the variable it computes them from another seed and compares.
"""

import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "recorded"
RECORDING = os.environ.get("BANDGAP_RECORD") == "1"
SEED = 2 if RECORDING else 3  # of what is computed anew


def recorded(name: str, problem: np.ndarray) -> dict[str, np.ndarray]:
    """Read what is recorded of a problem, which is known by some numbers (k,) of it."""
    path = FOLDER / f"{name}.json"
    found = {
        key: np.array(values)
        for key, values in json.loads(path.read_text(encoding="utf-8")).items()
    }
    message = f"{path.name} is of another problem"
    np.testing.assert_allclose(found.pop("problem"), problem, rtol=1e-5, atol=1e-6, err_msg=message)
    return found


def record(name: str, problem: np.ndarray, **moments: np.ndarray) -> None:
    """Write moments (k,) of a problem, where recording is asked for."""
    if RECORDING:
        FOLDER.mkdir(exist_ok=True)
        digits = {
            key: [float(f"{v:.10g}") for v in values]
            for key, values in {"problem": problem, **moments}.items()
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(digits, indent=1) + "\n", encoding="utf-8")
