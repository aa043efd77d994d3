"""Where the demo data are: their folders, the sample CIF files and the shipped source models.

Reads no structure, so that a command can check its paths before it imports what reads them.
"""

import importlib.resources
from pathlib import Path

from bandgap.foundation.errors import ArtifactError

INORGANIC = "inorganic"  # folder of the inorganic demo


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


def demo_source_folder() -> Path:
    """Return the folder of the source network that was trained on the demo molecules."""
    return data_folder() / "source_model"


def inorganic_folder() -> Path:
    """Return the folder of the inorganic demo: its sets, their manifest, and its source network."""
    return data_folder() / INORGANIC


def inorganic_source_folder() -> Path:
    """Return the folder of the source network that was trained on the inorganic crystals."""
    return inorganic_folder() / "source_model"
