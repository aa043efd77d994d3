"""Times of the viewer of structures, measured in Chromium.

They are from the click on the next structure to its picture. Chromium draws WebGL by software, as
on a machine without a GPU.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bandgap.jobs.home import Home, shapes_path
from bandgap.jobs.housekeeping import set_level_of_theory
from bandgap.jobs.library import Library
from bandgap.structures.drawing import shape_of
from bandgap.structures.objects import as_records
from bandgap.structures.shapes import Shape, save_shapes

if TYPE_CHECKING:
    from playwright.sync_api import Page

SOFTWARE_GL = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
PATIENCE_MS = 120_000
PEROVSKITES = (("SrTiO3", 3.905), ("BaZrO3", 4.19))  # lattice constants in angstrom
CELLS = (4, 4, 5)
N_ATOMS = 400


@dataclass(frozen=True)
class DrawingTimes:
    """Seconds of repeated drawings, in their order; the first one loads the code that draws.

    Attributes
    ----------
    server_s
        From the click until the browser has the data of the drawing.
    browser_s
        From there until its pixels are drawn.
    """

    server_s: list[float]
    browser_s: list[float]

    @property
    def totals_s(self) -> list[float]:
        """Seconds from the click to the pixels."""
        return [a + b for a, b in zip(self.server_s, self.browser_s, strict=True)]

    @property
    def median_s(self) -> float:
        """Median of the drawings after the first."""
        return float(np.median(self.totals_s[1:]))


def add_perovskites(home: Home, crystals: str) -> tuple[str, str]:
    """Add a data set of two perovskites of 400 atoms; return the ids of workspace and set."""
    library = Library(home)
    verdict = next(v for v in library.verdicts(crystals) if v.status != "refused")
    workspace = str(uuid.uuid4())
    dataset = library.add_dataset(workspace, "perovskites").id
    verdicts = [replace(verdict, id=name, formula=name, n_atoms=N_ATOMS) for name, _ in PEROVSKITES]
    library.save_verdicts(dataset, verdicts)
    set_level_of_theory(library, workspace, dataset, "PBE")
    _save_shapes(home, dataset, [perovskite(*parts) for parts in PEROVSKITES])
    return workspace, dataset


def perovskite(formula: str, lattice_angstrom: float) -> Shape:
    """Return the shape of 4 by 4 by 5 cells of a cubic perovskite ABO3."""
    from ase import Atoms

    cell = Atoms(  # type: ignore[no-untyped-call]
        formula,
        scaled_positions=[(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5)],
        cell=[lattice_angstrom] * 3,
        pbc=True,
    )
    block = cell.repeat(CELLS)  # type: ignore[no-untyped-call]
    (record,) = as_records(block)
    shape = shape_of(record)
    assert shape is not None
    return shape


def _save_shapes(home: Home, dataset: str, shapes: Sequence[Shape | None]) -> None:
    path = shapes_path(home, dataset)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_shapes(path, shapes)


# Click a button and look at every frame, until `look(clicked)` returns the server's and the
# browser's part in seconds.
_TIME = """
const clicked = performance.now()
const again = () => {
    try {
        const parts = look(clicked)
        if (parts) resolve(parts)
        else if (performance.now() > clicked + 60000) reject(Error('nothing drawn for a minute'))
        else requestAnimationFrame(again)
    } catch (error) {
        reject(error)
    }
}
button.click()
again()
"""

# The viewer measures its own drawing; reading a pixel of a copy waits until it is finished.
_TIME_VIEWER = f"""(button, box) => new Promise((resolve, reject) => {{
    performance.clearMeasures('bandgap.structure')
    const copy = new OffscreenCanvas(1, 1).getContext('2d')
    const look = clicked => {{
        const [drawing] = performance.getEntriesByName('bandgap.structure')
        if (!drawing) return null
        copy.drawImage(box.querySelector('canvas'), 0, 0, 1, 1)
        copy.getImageData(0, 0, 1, 1)
        const arrived = drawing.startTime
        return [(arrived - clicked) / 1000, (performance.now() - arrived) / 1000]
    }}
    {_TIME}
}})"""


def time_viewer(page: "Page", address: str, *, repeats: int) -> DrawingTimes:
    """Open the page Data of a data set of two structures, and draw them in turn."""
    _open(page, address)
    page.locator(".box[data-drawn]").wait_for()
    times = DrawingTimes([], [])
    for k in range(repeats + 1):
        box = page.locator(".box").element_handle()
        button = page.get_by_role("button", name="Previous" if k % 2 else "Next")
        server_s, browser_s = button.evaluate(_TIME_VIEWER, box)
        times.server_s.append(server_s)
        times.browser_s.append(browser_s)
        _wait_until_idle(page)
    return times


_IDLE = """() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState ===
    'notRunning' && !document.querySelector('[data-testid=stSkeleton], [data-stale=true]')"""


def _open(page: "Page", address: str) -> None:
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    page.get_by_role("heading", level=1, name="Data", exact=True).wait_for()
    _wait_until_idle(page)


def _wait_until_idle(page: "Page") -> None:
    page.wait_for_function(_IDLE, polling=50)
    page.wait_for_timeout(300)  # what follows the drawing, such as pictures in the table
