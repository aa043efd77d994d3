"""Draw a structure as a small picture (SVG) of balls and sticks, without a browser or WebGL.

The picture contains numbers and the colours of elements, and no text of a file.
"""

import numpy as np
from numpy.typing import NDArray

from bandgap.plots.elements import ball_diameter, colour_of
from bandgap.plots.scenes import Polyhedron, Scene, cell_edges, scene_of
from bandgap.structures.shapes import Shape

WIDTH, HEIGHT = 120, 90  # pixels
MOST_ATOMS = 400  # farther ones are left out, as nearer ones hide them
_HYDROGENS_UP_TO = 120  # atoms; hydrogens of larger structures are left out
_UNITS = 10  # of the coordinates in the picture for a pixel, so that they are whole numbers
_STICK_ANGSTROM = 0.18
_MARGIN_ANGSTROM = 0.6
_CELL = "#7A8086"

Floats = NDArray[np.float64]


def thumbnail(shape: Shape) -> str:
    """Return the picture of a structure with bonds and unit cell, on a transparent ground."""
    return scene_picture(scene_of(shape), width=WIDTH, height=HEIGHT)


def scene_picture(scene: Scene, *, width: int, height: int) -> str:
    """Return the picture of a scene of this size in pixels; see `thumbnail`."""
    drawn_atoms = _shown_atoms(scene)
    ends = cell_edges(scene.cell, scene.pbc, scene.repeats) @ scene.view.T
    positions = scene.positions @ scene.view.T
    outline = np.concatenate([positions[drawn_atoms], ends.reshape(-1, 3)])[:, :2]
    low = outline.min(axis=0) - _MARGIN_ANGSTROM
    high = outline.max(axis=0) + _MARGIN_ANGSTROM
    scale = _UNITS * float(np.min(np.array([width, height]) / (high - low)))
    middle = (low + high) / 2.0
    corner = np.array([width, height]) * _UNITS / 2.0

    def on_picture(points: Floats) -> list[list[int]]:
        flat = (points[..., :2] - middle) * (scale, -scale) + corner
        return [[round(x), round(y)] for x, y in flat.reshape(-1, 2).tolist()]

    centres = on_picture(positions)
    depth = positions[:, 2].tolist()
    parts = [(depth[atom], _ball(scene, atom, centres[atom])) for atom in drawn_atoms]
    parts += _sticks(scene, set(drawn_atoms), centres, depth)
    parts += [_polyhedron(scene, polyhedron, centres, depth) for polyhedron in scene.polyhedra]
    parts.sort(key=lambda part: part[0])
    edges = on_picture(ends)
    lines = "".join(
        f"M{a[0]} {a[1]}L{b[0]} {b[1]}" for a, b in zip(edges[::2], edges[1::2], strict=True)
    )
    stick = max(8, round(_STICK_ANGSTROM * scale))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width * _UNITS} {height * _UNITS}">'
        f"{_definitions(scene, drawn_atoms, scale)}"
        f'<path d="{lines}" stroke="{_CELL}" stroke-width="8" fill="none"/>'
        f'<g stroke-width="{stick}" stroke-linecap="round">'
        + "".join(text for _, text in parts)
        + "</g></svg>"
    )


def _shown_atoms(scene: Scene) -> list[int]:
    """Return the atoms that are drawn, farthest first."""
    atoms = np.arange(scene.numbers.size)
    if atoms.size > _HYDROGENS_UP_TO and (scene.numbers > 1).any():
        atoms = atoms[scene.numbers > 1]
    depth = scene.positions[atoms] @ scene.view[2]
    return [int(atom) for atom in atoms[np.argsort(depth, kind="stable")][-MOST_ATOMS:]]


def _definitions(scene: Scene, drawn_atoms: list[int], scale: float) -> str:
    """Return the shading and one ball for every element."""
    texts = [
        '<defs><radialGradient id="s" cx=".35" cy=".3" r=".8"><stop stop-color="#fff" '
        'stop-opacity=".55"/><stop offset=".5" stop-color="#fff" stop-opacity="0"/>'
        '<stop offset="1" stop-opacity=".35"/></radialGradient>'
    ]
    for number in np.unique(scene.numbers[drawn_atoms]).tolist():
        radius = max(12, round(ball_diameter(number) / 2.0 * scale))
        texts.append(
            f'<g id="e{number}" stroke="none"><circle r="{radius}" fill="{colour_of(number)}"/>'
            f'<circle r="{radius}" fill="url(#s)"/></g>'
        )
    return "".join(texts) + "</defs>"


def _ball(scene: Scene, atom: int, centre: list[int]) -> str:
    return f'<use href="#e{scene.numbers[atom]}" x="{centre[0]}" y="{centre[1]}"/>'


def _polyhedron(
    scene: Scene, polyhedron: Polyhedron, centres: list[list[int]], depth: list[float]
) -> tuple[float, str]:
    """Return depth and outline of a polyhedron, which is behind its centre."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(scene.positions[polyhedron.corners] @ scene.view[:2].T)
    outline = (centres[atom] for atom in polyhedron.corners[hull.vertices])
    points = " ".join(f"{x},{y}" for x, y in outline)
    colour = colour_of(int(scene.numbers[polyhedron.centre]))
    style = f'fill="{colour}" fill-opacity=".3" stroke="{colour}" stroke-width="4"'
    return depth[polyhedron.centre] - 0.01, f'<polygon points="{points}" {style}/>'


def _sticks(
    scene: Scene, drawn_atoms: set[int], centres: list[list[int]], depth: list[float]
) -> list[tuple[float, str]]:
    """Return depth and drawing of the half of each bond at each of its atoms."""
    sticks = []
    for first, second in scene.bonds.tolist():
        if first not in drawn_atoms or second not in drawn_atoms:
            continue
        (x, y), (u, v) = centres[first], centres[second]
        middle = f"{(x + u) // 2} {(y + v) // 2}"
        behind = (depth[first] + depth[second]) / 2.0 - 1e-3
        if scene.numbers[first] == scene.numbers[second]:
            colour = colour_of(int(scene.numbers[first]))
            line = f'<path d="M{x} {y}L{u} {v}" stroke="{colour}"/>'
            sticks.append((min(behind, depth[first], depth[second]), line))
            continue
        for atom in (first, second):
            start = f"M{centres[atom][0]} {centres[atom][1]}L{middle}"
            colour = colour_of(int(scene.numbers[atom]))
            sticks.append((min(behind, depth[atom]), f'<path d="{start}" stroke="{colour}"/>'))
    return sticks
