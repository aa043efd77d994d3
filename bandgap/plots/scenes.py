"""Compute what a viewer draws of a structure: atoms, bonds, polyhedra and the repeated cell.

Molecules are whole, with their centres in the cell. Atoms of infinite networks that are on a face
of the cell are repeated on the opposite face, and the atoms around every cation are complete, so
that no polyhedron is cut.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.plots.elements import ball_diameter, colour_of, symbol_of
from bandgap.structures.shapes import Shape

MOST_ATOMS = 3_000  # of the repeated cells; more atoms are slow to draw
MOST_CELLS = 3  # along each axis
_ON_FACE_ANGSTROM = 0.05
_CORNERS = (4, 8)  # of a drawn polyhedron
_FLAT = 0.15  # least extent of a polyhedron divided by its largest
_ANGLES = np.array([0.22, -0.28])  # about the first and second axis, in radians
(_COS_X, _COS_Y), (_SIN_X, _SIN_Y) = np.cos(_ANGLES), np.sin(_ANGLES)
# The first rotation follows the second.
_TILT = np.array(
    [
        [_COS_Y, 0.0, _SIN_Y],
        [_SIN_X * _SIN_Y, _COS_X, -_SIN_X * _COS_Y],
        [-_COS_X * _SIN_Y, _SIN_X, _COS_X * _COS_Y],
    ]
)

# The atoms at the corners of polyhedra, the most electronegative first.
_ANIONS = (9, 8, 7, 17, 35, 53, 16, 34, 52)
_NON_METALS = frozenset((1, 2, 5, 6, 10, 14, 15, 18, 32, 33, 36, 54, *_ANIONS))
_NEVER_CENTRES = frozenset((1, 2, 6, 7, 8, 9, 10, 18, 36, 54))
# Na, K, Rb, Cs, Ca, Sr and Ba fill the space between the polyhedra of other cations.
_SPACE_FILLING = frozenset((11, 19, 37, 55, 20, 38, 56))

Floats = NDArray[np.float64]
Cell = tuple[int, int, int]
Image = tuple[int, Cell]  # an atom and the cell in which its image is


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """A polyhedron around an atom; the numbers are positions in the atoms of the scene."""

    centre: int
    corners: NDArray[np.intp]  # (corner,)
    faces: NDArray[np.intp]  # (face, 3)


@dataclass(frozen=True, eq=False)
class Scene:
    """What is drawn of a structure; lengths in Angstrom.

    Attributes
    ----------
    numbers, positions, sites
        Atomic numbers (atom,), positions (atom, 3) and sites (atom,): the places in the structure
        of which the atoms are images.
    bonds
        Pairs of atoms (bond, 2).
    stubs
        Atom and end (x, y, z) of every bond to an atom that is not drawn; the end is its middle.
    polyhedra
        Polyhedra around cations.
    cell, pbc, repeats
        Cell vectors (3, 3), periodic directions (3,), and the number of cells along each.
    view
        Rotation (3, 3) whose rows are the directions to the right, up, and to the viewer.
    """

    numbers: NDArray[np.intp]
    positions: Floats
    sites: NDArray[np.intp]
    bonds: NDArray[np.intp]
    stubs: Sequence[tuple[int, Floats]]
    polyhedra: Sequence[Polyhedron]
    cell: Floats
    pbc: NDArray[np.bool_]
    repeats: Cell
    view: Floats


def scene_of(shape: Shape, *, n_cells: int = 1) -> Scene:
    """Return the scene of a structure with `n_cells` cells along every periodic axis.

    Not drawn are contacts between two metals of an ionic crystal, and those of Na, K, Rb, Cs, Ca,
    Sr, Ba and of cations with more than eight neighbours where another cation has a polyhedron.
    """
    repeats = _repeats(shape.pbc, n_cells)
    chemistry = _Chemistry(shape)
    images = _images(shape, chemistry, repeats)
    index = {image: k for k, image in enumerate(images)}
    bonds = sorted(
        {
            (min(k, index[neighbour]), max(k, index[neighbour]))
            for image, k in index.items()
            for neighbour in chemistry.drawn_neighbours(image)
            if neighbour in index
        }
    )
    atoms = np.array([atom for atom, _ in images], dtype=np.intp)
    cells = np.array([cell for _, cell in images], dtype=np.float64)
    positions = shape.positions[atoms] + cells @ shape.cell
    stubs = []
    for (atom, cell), k in index.items():
        if any(not 0 <= c < n for c, n in zip(cell, repeats, strict=True)):
            continue
        for other, other_cell in chemistry.drawn_neighbours((atom, cell)):
            if (other, other_cell) not in index:
                end = shape.positions[other] + np.array(other_cell) @ shape.cell
                stubs.append((k, np.asarray((positions[k] + end) / 2.0, dtype=np.float64)))
    return Scene(
        numbers=shape.numbers[atoms].astype(np.intp),
        positions=np.asarray(positions, dtype=np.float64),
        sites=atoms,
        bonds=np.array(bonds, dtype=np.intp).reshape(-1, 2),
        stubs=stubs,
        polyhedra=_polyhedra(chemistry, images, index, positions),
        cell=shape.cell,
        pbc=shape.pbc,
        repeats=repeats,
        view=_view(shape),
    )


def most_cells(shape: Shape) -> int:
    """Return the largest number of cells along each periodic axis that the viewer draws."""
    n_axes = int(shape.pbc.sum())
    if not n_axes:
        return 1
    return next(
        n
        for n in range(MOST_CELLS, 0, -1)
        if n == 1 or n**n_axes * shape.numbers.size <= MOST_ATOMS
    )


def scene_values(scene: Scene) -> dict[str, Any]:
    """Return a scene as JSON values for the viewer of the dashboard."""
    elements = [int(number) for number in np.unique(scene.numbers)]
    return {
        "elements": [
            {
                "symbol": symbol_of(number),
                "colour": colour_of(number),
                "radius": round(ball_diameter(number) / 2.0, 3),
            }
            for number in elements
        ],
        "element": np.searchsorted(elements, scene.numbers).tolist(),
        "xyz": scene.positions.round(3).ravel().tolist(),
        "site": (scene.sites + 1).tolist(),
        "bonds": scene.bonds.ravel().tolist(),
        "stubs": [[k, *end.round(3).tolist()] for k, end in scene.stubs],
        "polyhedra": [
            {"centre": p.centre, "faces": p.faces.ravel().tolist()} for p in scene.polyhedra
        ],
        "cell": scene.cell.round(4).tolist(),
        "pbc": scene.pbc.tolist(),
        "repeats": list(scene.repeats),
        "view": scene.view.round(5).tolist(),
    }


def cell_edges(cell: Floats, pbc: NDArray[np.bool_], repeats: Cell = (1, 1, 1)) -> Floats:
    """Return both ends of every edge of the drawn cells (edge, 2, 3), without doubled edges."""
    axes = [k for k in range(3) if pbc[k]]
    edges = []
    for axis in axes:
        corner_steps = [
            range(repeats[k] + 1) if k in axes and k != axis else (0,) for k in range(3)
        ]
        for corner in itertools.product(*corner_steps):
            start = np.array(corner, dtype=np.float64) @ cell
            edges.append((start, start + repeats[axis] * cell[axis]))
    return np.array(edges, dtype=np.float64).reshape(-1, 2, 3)


class _Chemistry:
    """Which atoms of a shape are cations, and which bonds are drawn."""

    def __init__(self, shape: Shape) -> None:
        numbers = shape.numbers.astype(int).tolist()
        self.numbers = numbers
        self.neighbours: list[list[Image]] = [[] for _ in numbers]
        pairs = zip(shape.bonds.tolist(), shape.shifts.tolist(), strict=True)
        for (first, second), (x, y, z) in pairs:
            self.neighbours[first].append((second, (x, y, z)))
            self.neighbours[second].append((first, (-x, -y, -z)))
        n_anions = [self._count_anions(atom) for atom in range(len(numbers))]
        self.n_ligands = [self._count_ligands(atom, n_anions) for atom in range(len(numbers))]
        low, high = _CORNERS
        candidates = [low <= n <= high for n in self.n_ligands]
        fills_space = [
            bool(n) and (number in _SPACE_FILLING or n > high)
            for number, n in zip(numbers, self.n_ligands, strict=True)
        ]
        self.has_polyhedron = [
            is_candidate and not fills
            for is_candidate, fills in zip(candidates, fills_space, strict=True)
        ]
        hides = any(self.has_polyhedron)
        self._hidden = [hides and fills for fills in fills_space]
        self.is_network = _network_atoms(shape)

    def _count_anions(self, atom: int) -> int:
        """Return the number of anions around an atom."""
        number = self.numbers[atom]
        if number in _NEVER_CENTRES:
            return 0
        neighbours = self.neighbours[atom]
        return sum(self._is_ligand(self.numbers[other], number) for other, _ in neighbours)

    def _count_ligands(self, atom: int, n_anions: Sequence[int]) -> int:
        """Return the number of anions around a cation, 0 if it also has covalent bonds."""
        number = self.numbers[atom]
        has_covalent_bond = any(
            self.numbers[other] in _NON_METALS
            and not self._is_ligand(self.numbers[other], number)
            and n_anions[other] < 3
            for other, _ in self.neighbours[atom]
        )
        return 0 if has_covalent_bond else n_anions[atom]

    def _is_ligand(self, number: int, centre: int) -> bool:
        if number not in _ANIONS:
            return False
        return centre not in _ANIONS or _ANIONS.index(number) < _ANIONS.index(centre)

    def ligands(self, image: Image) -> list[Image]:
        """Return the anions around the image of a cation."""
        number = self.numbers[image[0]]
        return [
            neighbour
            for neighbour in self._images_around(image)
            if self._is_ligand(self.numbers[neighbour[0]], number)
        ]

    def drawn_neighbours(self, image: Image) -> list[Image]:
        """Return the atoms to which a bond is drawn."""
        atom, _ = image
        return [
            neighbour
            for neighbour in self._images_around(image)
            if not self._hidden[atom]
            and not self._hidden[neighbour[0]]
            and not (self.n_ligands[atom] and self.n_ligands[neighbour[0]])
        ]

    def is_complete(self, atom: int) -> bool:
        """Return whether all anions around an atom of a network are drawn."""
        return self.is_network[atom] and self.n_ligands[atom] > 0 and not self._hidden[atom]

    def is_anion(self, atom: int) -> bool:
        """Return whether an atom of a network is drawn only with its cations."""
        return (
            self.is_network[atom]
            and not self.n_ligands[atom]
            and any(self.is_complete(other) for other, _ in self.neighbours[atom])
        )

    def _images_around(self, image: Image) -> list[Image]:
        atom, (x, y, z) = image
        return [(other, (x + i, y + j, z + k)) for other, (i, j, k) in self.neighbours[atom]]


def _images(shape: Shape, chemistry: _Chemistry, repeats: Cell) -> list[Image]:
    """Return the atoms to draw, each once."""
    images: dict[Image, None] = {}
    on_face = _on_face(shape)
    for atom in range(len(chemistry.numbers)):
        repeated = chemistry.is_network[atom] and not chemistry.is_anion(atom)
        steps = [
            range(n + 1) if repeated and on_face[atom, axis] else range(n)
            for axis, n in enumerate(repeats)
        ]
        images.update(dict.fromkeys((atom, (i, j, k)) for i, j, k in itertools.product(*steps)))
    centres = [image for image in images if chemistry.is_complete(image[0])]
    for centre in centres:
        images.update(dict.fromkeys(chemistry.ligands(centre)))
    has_bond = {
        image
        for image in images
        if chemistry.is_anion(image[0])
        and any(neighbour in images for neighbour in chemistry.drawn_neighbours(image))
    }
    with_bond = {atom for atom, _ in has_bond}
    # An anion without a bond to a drawn cation is left out where another image of it has one.
    return [image for image in images if image[0] not in with_bond or image in has_bond]


def _on_face(shape: Shape) -> NDArray[np.bool_]:
    """Return for every atom and axis (atom, 3) whether it is on the face through the origin."""
    result = np.zeros((shape.numbers.size, 3), dtype=bool)
    if shape.pbc.any():
        axes = np.flatnonzero(shape.pbc)
        fractional = shape.positions @ np.linalg.pinv(shape.cell)
        lengths = np.linalg.norm(shape.cell[axes], axis=1)
        result[:, axes] = np.abs(fractional[:, axes]) * lengths < _ON_FACE_ANGSTROM
    return result


def _network_atoms(shape: Shape) -> NDArray[np.bool_]:
    """Return which atoms belong to a group of bonds that has no end."""
    from bandgap.structures.neighbours import bonded_groups

    _, group = bonded_groups(shape.numbers.size, shape.bonds[:, 0], shape.bonds[:, 1])
    crossing = shape.bonds[shape.shifts.any(axis=1), 0]
    return np.isin(group, group[crossing])


def _polyhedra(
    chemistry: _Chemistry, images: list[Image], index: dict[Image, int], positions: Floats
) -> list[Polyhedron]:
    from scipy.spatial import ConvexHull, QhullError

    polyhedra = []
    for image in images:
        if not chemistry.has_polyhedron[image[0]]:
            continue
        ligands = chemistry.ligands(image)
        if any(ligand not in index for ligand in ligands):
            continue
        corners = np.array([index[ligand] for ligand in ligands], dtype=np.intp)
        points = positions[corners]
        extents = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
        if extents[-1] < _FLAT * extents[0]:
            continue
        try:
            faces = ConvexHull(points).simplices
        except QhullError:  # the corners are in one plane
            continue
        polyhedra.append(Polyhedron(index[image], corners, corners[faces]))
    return polyhedra


def _repeats(pbc: NDArray[np.bool_], n_cells: int) -> Cell:
    first, second, third = (n_cells if periodic else 1 for periodic in pbc)
    return first, second, third


def _view(shape: Shape) -> Floats:
    """Return the first view: the shortest axis to the viewer, the longest to the right, tilted."""
    if shape.pbc.all():
        order = np.argsort(np.linalg.norm(shape.cell, axis=1), kind="stable")
        toward, right = shape.cell[order[0]], shape.cell[order[2]]
    elif shape.positions.shape[0] > 1:
        centred = shape.positions - shape.positions.mean(axis=0)
        axes = np.linalg.svd(centred, full_matrices=True)[2]
        toward, right = axes[2], axes[0]
    else:
        toward, right = np.eye(3)[2], np.eye(3)[0]
    z = toward / np.linalg.norm(toward)
    x = right - (right @ z) * z
    x /= np.linalg.norm(x)
    return np.asarray(_TILT @ np.stack([x, np.cross(z, x), z]), dtype=np.float64)
