"""Where the demo data are: their folder, and the sample CIF files. Reads no structure."""

import importlib.resources
from pathlib import Path

from bandgap.foundation.errors import ArtifactError


def data_folder() -> Path:
    """Return the folder of the demo data, in the installed package or in the checkout.

    Raises ArtifactError if neither exists.
    """
    installed = Path(str(importlib.resources.files("bandgap"))) / "_data"
    checkout = Path(__file__).resolve().parents[2] / "data"
    for folder in (installed, checkout):
        if (folder / "manifest.json").is_file():
            return folder
    raise ArtifactError(
        f"The demo data are missing: neither {installed} nor {checkout} contains a manifest.json."
        " Install bandgap again, or make them in a checkout with `python -m data.making molecular"
        " --out data`."
    )


def unlabelled_cifs() -> list[Path]:
    """Return the sample CIF files, sorted: crystals without gaps, the last four with faults."""
    return sorted((data_folder() / "new_crystals").glob("*.cif"))
