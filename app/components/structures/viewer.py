"""The viewer: a component of the browser that draws a structure in three dimensions by 3Dmol.js.

The scene comes from `bandgap.plots.scenes`; the browser only draws it. Its script is in the folder
`assets`, from which Streamlit's server serves it, without the internet.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from bandgap.plots.scenes import most_cells, scene_of, scene_values
from bandgap.plots.thumbnails import scene_picture
from bandgap.structures.shapes import Shape

ASSETS = Path(__file__).with_name("assets")
NAME = "bandgap.structure"
# A changed file gets a new name, because browsers keep files of the same address.
SCRIPT = "structure-2.js"
STYLE = "structure-1.css"
PICTURE = (640, 480)  # pixels of the picture where the browser has no WebGL
HTML = """
<div class="viewer">
  <div class="tools">
    <span class="group" role="group" aria-label="View along an axis">
      <button type="button" data-do="a">a</button>
      <button type="button" data-do="b">b</button>
      <button type="button" data-do="c">c</button>
      <button type="button" data-do="reset">Whole view</button>
    </span>
    <button type="button" data-do="polyhedra" aria-pressed="true">Polyhedra</button>
    <label>Cells <select></select></label>
    <span class="group" role="group" aria-label="Save the picture">
      <button type="button" data-do="png" aria-label="Save as PNG">PNG</button>
      <button type="button" data-do="svg" aria-label="Save as SVG">SVG</button>
    </span>
  </div>
  <div class="box" role="img" aria-label="Structure, not drawn yet" tabindex="0"></div>
  <div class="legend"></div>
  <div class="note" role="status"></div>
</div>
"""


def draw_shape(shape: Shape, *, label: str, file: str, key: str) -> None:
    """Draw a structure in three dimensions.

    Parameters
    ----------
    shape
        The structure.
    label
        What the picture shows, for visitors who do not see it.
    file
        Name of the files that the visitor saves, without suffix.
    key
        Key of the component. One key for all structures of a table keeps the number of cells and
        the polyhedra as they were chosen.
    """
    state: Mapping[str, Any] = st.session_state.get(key) or {}
    n_cells = int(np.clip(int(state.get("cells") or 1), 1, most_cells(shape)))
    mount = _component()
    mount(
        key=key,
        data=viewer_data(shape, n_cells=n_cells, label=label, file=file),
        on_cells_change=lambda: None,
    )


@st.cache_resource(max_entries=64, show_spinner=False)
def _scene(content: str, n_cells: int, _shape: Shape) -> dict[str, Any]:
    """Return what does not depend on names; equal content gives the same object."""
    scene = scene_of(_shape, n_cells=n_cells)
    width, height = PICTURE
    return scene_values(scene) | {"picture": scene_picture(scene, width=width, height=height)}


def viewer_data(shape: Shape, *, n_cells: int, label: str, file: str) -> dict[str, Any]:
    """Return the data of the component."""
    digest = hashlib.blake2b(digest_size=12)
    arrays = (shape.numbers, shape.positions, shape.cell, shape.pbc, shape.bonds, shape.shifts)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    content = digest.hexdigest()
    return _scene(content, n_cells, shape) | {
        "id": f"{content}-{n_cells}",
        "structure": content,
        "most_cells": most_cells(shape),
        "label": label,
        "file": re.sub(r"[^A-Za-z0-9._-]+", "_", file).strip("._")[:80] or "structure",
    }


def _component() -> Any:
    """Return the component, after telling Streamlit where its files are.

    Streamlit finds such files by itself only for an installed package with a `pyproject.toml` in
    its folder, which neither a checkout nor the wheel has.
    """
    manager = get_bidi_component_manager()
    if manager.get_component_path(NAME) is None:
        package, _, component = NAME.partition(".")
        manifest = ComponentManifest(
            name=package, version="", components=[ComponentConfig(component, ASSETS.name)]
        )
        manager.register_from_manifest(manifest, ASSETS.parent)
    return st.components.v2.component(NAME, html=HTML, css=STYLE, js=SCRIPT)
