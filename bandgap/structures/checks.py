"""Check the draft of a structure and make its record, before anything is computed from it."""

import gemmi
import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from bandgap.foundation.errors import printable
from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.elements import to_numbers
from bandgap.structures.formula import mass_density
from bandgap.structures.neighbours import (
    CLOSEST_ANGSTROM,
    LARGEST_ANGSTROM,
    LONGEST_BOND,
    MAX_CLOSE_PAIRS,
    REPEAT_ANGSTROM,
    SHORTEST_BOND,
    THINNEST_ANGSTROM,
    Pairs,
    cell_unit,
    cell_volume,
    check_density,
    check_images,
    check_volume,
    close_pairs,
    complete_cell,
    heights,
    nearest_ratio,
    repeated_atoms,
)
from bandgap.structures.records import Limits, Problem, StructureRecord

NO_HYDROGEN = "no hydrogen atoms in the file; the model was trained with hydrogens, expect a shift"
NO_MEMORY = "needs more memory than there is, or than a file of its size may need. Split it"
NO_CELL = (
    "there is no cell, and the atoms are read as a molecule. For a crystal give its cell, such as"
    " Lattice in extXYZ"
)
# Limits of the mass density in g/cm^3; see `_density_warnings`.
IMPOSSIBLE_DENSITY = 40.0
IMPOSSIBLE_VOLUME = 1.0  # per atom, cubic Angstrom; hydrogen at 500 GPa has 1.2
HIGH_DENSITY = 24.0
LOW_DENSITY = 0.01
LOW_DENSITY_TEXT = "the mass density is very low"
BORDER_ANGSTROM = 1.0  # shortest lattice vector between an atom and its copy on the border
_CARBON = 6
_HYDROGEN = 1
# Elements next to carbon in organic molecules: B N O F Si P S Cl Se Br I.
_ORGANIC = {5, 7, 8, 9, 14, 15, 16, 17, 34, 35, 53}
_OF_CRYSTALS = {14, 32, 33, 51, 52}  # Si Ge As Sb Te, and metals
_OF_CRYSTALS |= {n for n in range(1, 119) if gemmi.Element(n).is_metal}
# Shortest and longest bond of carbon to an element, Angstrom; excludes CN-, CO and carbonate.
_BONDS_OF_CARBON = {6: (1.15, 1.70), 7: (1.36, 1.60), 8: (1.36, 1.55)}

Floats = NDArray[np.float64]


def to_record(draft: Draft, *, file: str, id: str, limits: Limits) -> StructureRecord:
    """Check a draft and return its record, refused with the reason if a check fails."""
    problems = list(draft.problems)
    atoms = None
    if not any(problem.severity == "refused" for problem in problems):
        try:
            atoms, warnings = _check_draft(draft, limits)
            problems += [Problem("warning", text) for text in warnings]
        except Unreadable as error:
            problems = [Problem("refused", str(error)), *problems]
        except MemoryError:
            problems = [Problem("refused", f"the structure {NO_MEMORY}"), *problems]
    problems = [Problem(problem.severity, printable(problem.text)) for problem in problems]
    return StructureRecord(printable(id), file, draft.format, atoms, tuple(problems), draft.info)


def _check_draft(draft: Draft, limits: Limits) -> tuple[Atoms, list[str]]:
    check_count(len(draft.symbols), limits)
    numbers, warnings = to_numbers(draft.symbols, name=draft.name)
    cell = np.zeros((3, 3)) if draft.cell is None else draft.cell
    _check_finite(draft, cell)
    _check_cell(cell, draft.pbc)
    cell = _without_flat_vectors(cell, draft.pbc)
    if all(draft.pbc):
        check_density(len(numbers), cell)
        warnings += _density_warnings(draft, cell)
    if any(draft.pbc):
        check_images(len(numbers), cell, draft.pbc)
    pairs = _pairs_too_close(draft, cell)
    if all(draft.pbc) and (warning := _drop_border_atoms(draft, pairs)):
        warnings.append(warning)
        numbers, _ = to_numbers(draft.symbols, name=draft.name)
        pairs = _pairs_too_close(draft, cell)
    _check_distances(draft, pairs)
    if draft.content_problem:
        raise Unreadable(draft.content_problem)
    if not any(text.startswith(LOW_DENSITY_TEXT) for text in warnings):
        warnings += _unit_warnings(draft, np.array(numbers), cell)
    if not any(draft.pbc) and not cell.any() and _lacks_cell(draft, set(numbers)):
        warnings.append(NO_CELL)
    if _lacks_hydrogen(draft, np.array(numbers), cell):
        warnings.append(NO_HYDROGEN)
    atoms = Atoms(  # type: ignore[no-untyped-call]
        numbers=numbers, positions=draft.positions, cell=cell, pbc=draft.pbc
    )
    return atoms, warnings


def check_count(n_atoms: int, limits: Limits) -> None:
    """Raise Unreadable if a structure has no atoms, or more than the limit."""
    if n_atoms == 0:
        raise Unreadable("no atoms in the structure")
    if n_atoms > limits.max_atoms:
        raise Unreadable(f"the structure has {n_atoms:,} atoms; the limit is {limits.max_atoms:,}")


def _check_finite(draft: Draft, cell: Floats) -> None:
    largest = [float(np.abs(draft.positions).max()), float(np.abs(cell).max())]
    if all(value <= LARGEST_ANGSTROM for value in largest):  # False if one of them is NaN
        return
    if not np.isfinite(cell).all():
        raise Unreadable("the unit cell contains a value that is not a finite number")
    finite = np.isfinite(draft.positions).all(axis=1)
    if not finite.all():
        atom = int(np.argmin(finite))
        raise Unreadable(f"the position of atom {draft.name(atom)} is not a finite number")
    raise Unreadable(
        f"a coordinate or cell vector of {max(largest):.3g} A is too large for a structure; is the"
        " unit right?"
    )


def _check_cell(cell: Floats, pbc: tuple[bool, bool, bool]) -> None:
    if not any(pbc):
        return
    if not cell[np.array(pbc)].any(axis=1).all():
        raise Unreadable(
            "the structure is marked as periodic and has no lattice. Add the lattice, or set pbc"
            " to F."
        )
    check_volume(complete_cell(cell, pbc))


def _without_flat_vectors(cell: Floats, pbc: tuple[bool, bool, bool]) -> Floats:
    """Return the cell of a layer or chain without its open vectors if they give it no volume.

    Such a vector lies in the plane of the layer, and says nothing about the space beside it.
    """
    if all(pbc) or not any(pbc) or min(heights(cell).tolist()) >= THINNEST_ANGSTROM:
        return cell
    return np.where(np.array(pbc)[:, None], cell, 0.0)


def _density_warnings(draft: Draft, cell: Floats) -> list[str]:
    """Return a warning if the mass density is one that no solid has.

    Raises Unreadable if it is impossible. Osmium has 22.6 g/cm^3, the lightest frameworks
    0.13, and a molecule in a large cell of a calculation 0.03.
    """
    density = mass_density(draft.symbols, cell)
    volume_per_atom = cell_volume(cell) / len(draft.symbols)
    facts = f"{density:.2g} g/cm3, {volume_per_atom:.3g} A^3 per atom"
    unit = cell_unit(volume_per_atom)
    if density > IMPOSSIBLE_DENSITY:
        raise Unreadable(
            f"the crystal has a mass density of {facts}; no solid is that dense. Is the unit of the"
            " cell Angstrom, and are the symmetry operators those of these axes?"
        )
    if volume_per_atom < IMPOSSIBLE_VOLUME:
        raise Unreadable(
            f"the crystal has {volume_per_atom:.2g} A^3 per atom, and no solid is below"
            f" {IMPOSSIBLE_VOLUME:g}. {unit or 'Is the unit of the cell Angstrom?'}"
        )
    if density > HIGH_DENSITY:
        return [f"the mass density is very high ({facts}); are atoms there twice?"]
    if density < LOW_DENSITY:
        question = unit or "Is the unit of the cell Angstrom, and are atoms missing?"
        return [f"{LOW_DENSITY_TEXT} ({facts}). {question}"]
    return []


def _pairs_too_close(draft: Draft, cell: Floats) -> Pairs:
    """Return the pairs of atoms that are closer than any bond."""
    return close_pairs(
        draft.positions,
        cell=cell,
        pbc=draft.pbc,
        cutoff_angstrom=CLOSEST_ANGSTROM,
        max_pairs=MAX_CLOSE_PAIRS,
    )


def _drop_border_atoms(draft: Draft, pairs: Pairs) -> str:
    """Drop atoms that are listed again on the opposite border of the cell; return a warning or "".

    Such an atom is a lattice vector away from another one of the same element. An atom that is
    listed twice at the same place stays, and is refused as a doubled one.
    """
    first, second, distances = pairs
    if not len(first):
        return ""
    listed_apart = np.linalg.norm(draft.positions[first] - draft.positions[second], axis=1)
    on_borders = (distances <= REPEAT_ANGSTROM) & (listed_apart > BORDER_ANGSTROM)
    is_repeat = repeated_atoms(first[on_borders], second[on_borders], draft.symbols)
    if not is_repeat.any():
        return ""
    keep = np.flatnonzero(~is_repeat).tolist()
    draft.symbols = [draft.symbols[k] for k in keep]
    draft.names = [draft.names[k] for k in keep] if draft.names else []
    draft.positions = draft.positions[keep]
    return (
        f"{np.count_nonzero(is_repeat):,} of {len(is_repeat):,} atoms are listed again on the"
        " opposite border of the cell and were taken once"
    )


def _check_distances(draft: Draft, pairs: Pairs) -> None:
    i, j, distances = pairs
    if not len(distances):
        return
    closest = int(np.argmin(distances))
    further_pairs = f" ({len(distances) - 1:,} more such pairs)" if len(distances) > 1 else ""
    raise Unreadable(
        f"atoms {draft.name(int(i[closest]))} and {draft.name(int(j[closest]))} are"
        f" {distances[closest]:.2f} A apart{further_pairs}. Atoms closer than {CLOSEST_ANGSTROM} A"
        " are not accepted; look for disorder, doubled atoms or a wrong unit."
    )


def _unit_warnings(draft: Draft, numbers: NDArray[np.int_], cell: Floats) -> list[str]:
    """Return a warning if no two atoms are at a bond's distance.

    The first atom decides in nearly all structures, without its images.
    """
    ratio = nearest_ratio(0, numbers, draft.positions - draft.positions[0])
    if SHORTEST_BOND <= ratio <= LONGEST_BOND:
        return []
    from bandgap.structures.length_units import unit_warning

    text = unit_warning(numbers, positions=draft.positions, cell=cell, pbc=draft.pbc)
    return [text] if text else []


def _lacks_cell(draft: Draft, numbers: set[int]) -> bool:
    """Return whether atoms without a cell are rather those of a crystal than of a molecule.

    They have a metal or semiconductor, and neither carbon nor hydrogen.
    """
    is_inorganic = not numbers & {_CARBON, _HYDROGEN} and bool(numbers & _OF_CRYSTALS)
    return draft.is_of_trajectory or is_inorganic


def _lacks_hydrogen(draft: Draft, numbers: NDArray[np.int_], cell: Floats) -> bool:
    """Return whether hydrogen is missing: from an organic structure, by its formula or bonds."""
    elements = set(numbers.tolist())
    if _HYDROGEN in elements or _CARBON not in elements:
        return False
    if draft.expects_hydrogen:
        return True
    if not elements & _ORGANIC:
        return False
    i, j, distances = close_pairs(draft.positions, cell=cell, pbc=draft.pbc, cutoff_angstrom=1.7)
    for end, other in ((i, j), (j, i)):
        for partner, (shortest, longest) in _BONDS_OF_CARBON.items():
            bonded = (numbers[end] == _CARBON) & (numbers[other] == partner)
            if (bonded & (distances > shortest) & (distances < longest)).any():
                return True
    return False
