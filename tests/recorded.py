"""Recorded moments of posteriors, which statistical tests compare with their chains.

Each file in tests/recorded was computed by long chains of the test with the same name.
`BANDGAP_RECORD=1 pytest -m soak -k recorded` recomputes and writes the files. Without the variable
the same tests recompute the moments from another seed and compare them.
"""

import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "recorded"
RECORDING = os.environ.get("BANDGAP_RECORD") == "1"
SEED = 2 if RECORDING else 3  # Of recomputed moments.


def recorded(name: str, problem: np.ndarray) -> dict[str, np.ndarray]:
    """Read the recorded moments of a problem; `problem` has numbers (k,) that identify it."""
    path = FOLDER / f"{name}.json"
    moments = {
        key: np.array(values)
        for key, values in json.loads(path.read_text(encoding="utf-8")).items()
    }
    message = f"{path.name} is of another problem"
    np.testing.assert_allclose(
        moments.pop("problem"), problem, rtol=1e-5, atol=1e-6, err_msg=message
    )
    return moments


def record(name: str, problem: np.ndarray, **moments: np.ndarray) -> None:
    """Write moments (k,) of a problem if BANDGAP_RECORD=1."""
    if RECORDING:
        FOLDER.mkdir(exist_ok=True)
        digits = {
            key: [float(f"{v:.10g}") for v in values]
            for key, values in {"problem": problem, **moments}.items()
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(digits, indent=1) + "\n", encoding="utf-8")
