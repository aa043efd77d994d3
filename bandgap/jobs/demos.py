"""The shipped demos, each a target with gaps and a source model, by the origin of its data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bandgap.jobs.rows import Origin

if TYPE_CHECKING:
    from bandgap.datasets.demo import DemoSet


@dataclass(frozen=True)
class Demo:
    """Name of the data set, id and title of the source model, and functions that load both.

    `file` is the file of the structures, next to the folder of the source model.
    """

    dataset: str
    source: str
    source_title: str
    load: Callable[[], DemoSet]
    folder: Callable[[], Path]
    file: str


def _molecular_crystals() -> DemoSet:
    from bandgap.datasets.demo import load_demo

    return load_demo("crystals")


def _molecules_folder() -> Path:
    from bandgap.datasets.demo_files import demo_source_folder

    return demo_source_folder()


def _crystals_with_c_and_h() -> DemoSet:
    from bandgap.datasets.demo import load_inorganic

    return load_inorganic("target")


def _inorganic_folder() -> Path:
    from bandgap.datasets.demo_files import inorganic_source_folder

    return inorganic_source_folder()


DEMOS: Final[Mapping[Origin, Demo]] = {
    "demo": Demo(
        "demo crystals",
        "demo",
        "demo molecules",
        _molecular_crystals,
        _molecules_folder,
        "crystals.extxyz.gz",
    ),
    "demo-inorganic": Demo(
        "Materials Project crystals",
        "inorganic",
        "inorganic crystals",
        _crystals_with_c_and_h,
        _inorganic_folder,
        "target.extxyz.gz",
    ),
}
