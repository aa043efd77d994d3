"""The result of the demo that the page Home shows if the workspace has no run."""

from pathlib import Path
from typing import Any

from bandgap.evaluation.heldout import load_heldout
from bandgap.storage.manifests import read_manifest

INTERVAL_PROBABILITY = 0.95
FIGURES = ("rmse_eV", "mae_eV", "coverage_95", "width_95_eV")


def home_page_result(run: Path) -> dict[str, Any]:
    """Return figures of a finished run, and its held-out crystals with 95 % intervals.

    Gaps are in eV, rounded to 0.001.

    Raises
    ------
    ArtifactError, InputError
        If the folder is not that of a run with held-out structures.
    """
    manifest = read_manifest(run, kind="run")
    heldout = load_heldout(run, manifest)
    lower, upper = heldout.predictions.interval(INTERVAL_PROBABILITY)
    ends = {
        "gap_eV": heldout.gaps_eV,
        "mean_eV": heldout.predictions.mean_eV,
        "lower_eV": lower,
        "upper_eV": upper,
    }
    return {
        "how": "bandgap demo, then python -m data.making result",
        **{name: manifest[name] for name in ("method", "title", "n", "level_of_theory")},
        "seed": manifest["request"]["seed"],
        "n_test": len(heldout),
        "metrics": {name: round(manifest["metrics"][name], 4) for name in FIGURES},
        "crystals": {
            "id": list(heldout.predictions.ids),
            "formula": list(heldout.predictions.formulas),
        }
        | {name: [round(float(value), 3) for value in values] for name, values in ends.items()},
    }
