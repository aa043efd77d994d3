"""Writes down what pages must know of what only the worker may load: source models, methods, versions, device."""

import importlib.metadata
import importlib.util
import logging
import sys
from pathlib import Path
from typing import Any

from bandgap.foundation.config import to_dict
from bandgap.foundation.damage import read_json
from bandgap.jobs.child import belong_to_worker
from bandgap.jobs.demos import DEMOS, Demo
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library

log = logging.getLogger(__name__)

PACKAGES = ("bandgap", "torch", "dscribe", "ase", "numpy", "pandas", "plotly", "streamlit")


def catalogue_main(folder: str) -> None:
    """Entry of the process that the worker starts for it, as the libraries take seconds to load."""
    belong_to_worker()
    register_all(folder)


def register_all(folder: str) -> None:
    """Register shipped sources, transfer methods and this machine; what cannot be loaded is logged and left out."""
    library = Library(Home(Path(folder)))
    for register in (register_sources, register_methods, register_descriptors, register_system):
        try:
            register(library)
        except Exception:
            log.exception("%s failed; pages show what was registered before", register.__name__)


def register_sources(library: Library) -> None:
    """Register the source models that are shipped, with their cards."""
    library.register("source", {demo.source: _shown(demo) for demo in DEMOS.values()})


def _shown(demo: Demo) -> dict[str, Any]:
    folder = demo.folder()
    card: dict[str, Any] = read_json(folder / "manifest.json")["card"]
    return {
        "title": f"{demo.source_title} ({card['level_of_theory']})",
        "folder": str(folder),
        "n_structures": card["n_structures"],
        "elements": card["elements"],
        "level_of_theory": card["level_of_theory"],
        "validation_rmse_eV": card["validation_rmse_eV"],
        "card": card,
    }


def register_methods(library: Library) -> None:
    """Register every transfer method with title, summary, cost and default settings, in the registry's order."""
    from bandgap.transfer import METHODS

    entries = {
        name: {
            "family": m.family,
            "title": m.title,
            "summary": m.summary,
            "cost": m.cost,
            "needs": m.needs,
            "new_elements": m.new_elements,
            "resumable": m.resumable is not None,
            "settings": to_dict(m.configure({})),
        }
        for name, m in METHODS.items()
    }
    library.register("method", entries)


def register_descriptors(library: Library) -> None:
    """Register the descriptor presets with their elements and numbers of features."""
    from bandgap.descriptors import PRESETS, n_features

    entries = {
        name: {"species": list(config.elements), "n_features": n_features(config)} for name, config in PRESETS.items()
    }
    library.register("descriptor", entries)


def register_system(library: Library) -> None:
    """Register library versions and the device that jobs will use."""
    from bandgap.foundation.machine import choose_device, cores

    versions = {name: _version(name) for name in PACKAGES}
    body = {"python": sys.version.split()[0], "versions": versions, "device": str(choose_device()), "cores": cores()}
    extras = {"levels": "tblite", "graph": "torch_geometric"}
    body |= {name: importlib.util.find_spec(package) is not None for name, package in extras.items()}
    library.register("system", {"worker": body})


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
