"""Register sources, methods, versions and device for the dashboard, which cannot load them."""

import importlib.metadata
import importlib.util
import logging
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandgap.datasets.shipped_models import MODEL, shipped_folder
from bandgap.foundation.config import to_dict
from bandgap.foundation.damage import read_json
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.entries import MethodEntry, PresetEntry, SourceEntry, SystemEntry
from bandgap.jobs.home import Home
from bandgap.jobs.job_process import set_up_process
from bandgap.jobs.library import Library

if TYPE_CHECKING:
    from bandgap.transfer import Method

log = logging.getLogger(__name__)

PACKAGES = ("bandgap", "torch", "dscribe", "ase", "numpy", "pandas", "plotly", "streamlit")


def catalogue_main(folder: str) -> None:
    """Register everything; the entry of a separate process, as the libraries load for seconds."""
    set_up_process()
    register_all(folder)


def register_all(folder: str) -> None:
    """Register sources, methods, presets and this machine; log and leave out what does not load."""
    library = Library(Home(Path(folder)))
    for register in (register_sources, register_methods, register_descriptors, register_system):
        try:
            register(library)
        except Exception:
            log.exception("%s failed; pages show what was registered before", register.__name__)


def register_sources(library: Library) -> None:
    """Register the source models that are shipped, with their cards."""
    folders = {demo.source: (demo.source_title, demo.folder()) for demo in DEMOS.values()}
    folders[MODEL] = ("crystals of 86 elements", shipped_folder(MODEL).path)
    library.register_sources({name: _source_entry(*parts) for name, parts in folders.items()})


def _source_entry(title: str, folder: Path) -> SourceEntry:
    card: dict[str, Any] = read_json(folder / "manifest.json")["card"]
    return SourceEntry(f"{title} ({card['level_of_theory']})", str(folder), card)


def register_methods(library: Library) -> None:
    """Register every transfer method with its texts, cost and settings, in the registry's order."""
    from bandgap.transfer import METHODS

    library.register_methods({name: _method_entry(method) for name, method in METHODS.items()})


def _method_entry(method: "Method") -> MethodEntry:
    entry: dict[str, Any] = {f.name: getattr(method, f.name, None) for f in fields(MethodEntry)}
    entry["settings"] = to_dict(method.configure({}))
    return MethodEntry(**entry)


def register_descriptors(library: Library) -> None:
    """Register the descriptor presets with their elements and numbers of features."""
    from bandgap.descriptors import PRESETS, n_features

    entries = {
        name: PresetEntry(tuple(config.elements), n_features(config))
        for name, config in PRESETS.items()
    }
    library.register_presets(entries)


def register_system(library: Library) -> None:
    """Register library versions, the device that jobs will use, and the installed extras."""
    from bandgap.descriptors.potentials import installed_extras
    from bandgap.foundation.machine import choose_device, cores

    entry = SystemEntry(
        python=sys.version.split()[0],
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        device=str(choose_device()),
        cores=cores(),
        levels=importlib.util.find_spec("tblite") is not None,
        graph=importlib.util.find_spec("torch_geometric") is not None,
        potentials=installed_extras(),
    )
    library.register_system(entry)
