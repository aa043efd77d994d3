"""Where the demo data are: their folders, the sample CIF files and the shipped source models.

Reads no structure, so that a command can check its paths before it imports what reads them.
"""

import importlib.resources
from pathlib import Path

from bandgap.foundation.arguments import as_folder
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


def folder_of_source(source: Path | str | None) -> Path | None:
    """Return the folder of a source model.

    Unless there is a folder of this name, "demo" and "inorganic" are the shipped source models,
    "pbe" is the shipped model of PBE gaps, and "none" is None. Raises InputError if `source` is not
    a path.
    """
    if source is None:
        return None
    folder = as_folder(source, name="source")
    shipped = {"demo": demo_source_folder, INORGANIC: inorganic_source_folder}
    if folder.exists() or str(folder) == "none":
        return folder if folder.exists() else None
    if str(folder) in shipped:
        return shipped[str(folder)]()
    from bandgap.datasets.shipped_models import model_names, shipped_folder

    return shipped_folder(str(folder)).path if str(folder) in model_names() else folder
