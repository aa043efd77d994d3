"""Read CIF 1.1; every block with atoms becomes one structure.

Reference: S. R. Hall et al., Acta Cryst. A47 (1991) 655. gemmi reads the syntax. The symmetry is
that of `bandgap.structures.formats.cif_symmetry`.
"""

import re
import unicodedata
from collections.abc import Iterator

from gemmi import cif

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import (
    TABLE_NUMBER,
    Draft,
    Format,
    Unreadable,
    glued_numbers,
    refused_draft,
)
from bandgap.structures.formats.cif_elements import is_vacant, site_element
from bandgap.structures.formats.cif_symmetry import Symmetry, ambiguous_origin, symmetries_of
from bandgap.structures.formats.cif_values import (
    column,
    has_column,
    number_of,
    tags_of,
    value_of,
    without_uncertainty,
)
from bandgap.structures.formula import (
    check_formula,
    formula_units,
    is_number_of_units,
    mass_density,
    parse_formula,
)
from bandgap.structures.records import Limits
from bandgap.structures.symmetry import Site, from_sites, left_out, masked_solvent
from bandgap.structures.unit_cells import UnitCell, unit_cell

_HEADER = re.compile(r"data_\S*", re.IGNORECASE)
# A loop without values, as GULP writes it.
_EMPTY_LOOP = re.compile(
    r"^[ \t]*loop_[ \t]*\n(?:[ \t]*_\S+[ \t]*\n)+(?=[ \t]*_\S+[ \t]+\S)", re.MULTILINE
)
_AT_LINE = re.compile(r"^[^:]*:(\d+)(?::\d+)?\S*(?: in \S+)?:?\s*(.*)", re.DOTALL)
_LENGTHS = ["_cell_length_a", "_cell_length_b", "_cell_length_c"]
_ANGLES = ["_cell_angle_alpha", "_cell_angle_beta", "_cell_angle_gamma"]
_MINUS_SIGNS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\u2013", "-"))
_TRIPLE_QUOTES = ("'''", '"""')
_CIF1_ONLY = "which is not supported; export as CIF 1.1."
_CIF2_HEADER = re.compile(r"#\\#CIF_2\.0", re.IGNORECASE)
_CIF2_VALUE = re.compile(r"^[ \t]*(?:_\S+[ \t]+)?[\[{]", re.MULTILINE)  # a list or a table
# Tags of SQUEEZE in PLATON, of masks in Olex2, and of the file that SHELXL reads for both.
_MASKS = ("_platon_squeeze_", "_smtbx_masks_", "_shelx_fab_file")
_MASKED_ELECTRONS = "_void_count_electrons"
_DENSITY_TAGS = ("_exptl_crystal_density_diffrn", "_exptl_crystal_density_meas")
_DENSITY_TOLERANCE = 0.1  # largest relative error of a density that decides between two origins
_DENSITY_WARNING = 0.2  # relative error without a warning; hydrogen atoms may be missing


def read_cif(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every block with atoms or a cell, or a refused one if there is none."""
    plain = text if text.isascii() else _ascii(text)
    plain = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", " ", plain)
    plain = _EMPTY_LOOP.sub(lambda match: "\n" * match.group().count("\n"), plain)
    try:
        blocks: list[cif.Block | Draft] = list(cif.read_string(plain, check_level=0))
    except (ValueError, RuntimeError) as error:
        blocks = _blocks_one_by_one(plain, error, max_blocks=limits.max_structures)
    has_several = (
        sum(isinstance(block, Draft) or _has_atoms(block) or _has_cell(block) for block in blocks)
        > 1
    )
    n_drafts = 0
    for block in blocks:
        if isinstance(block, Draft):
            draft = block
        elif _has_atoms(block) or _has_cell(block):
            draft = _from_block(block, limits=limits)
        else:
            continue
        n_drafts += 1
        draft.suffix = str(n_drafts)
        draft.id = draft.id if has_several else ""
        yield draft
    if not n_drafts:
        yield refused_draft(_reason_without_atoms(text, len(blocks)))


def _ascii(text: str) -> str:
    """Return a text with ASCII characters only, as CIF 1.1 demands.

    Accents are dropped, and every other character becomes a question mark, which has no meaning
    for the syntax. The number of lines stays.
    """
    plain = text.translate(_MINUS_SIGNS)
    plain = re.sub(r"[^\S\n\r\t\x00-\x7f]", " ", plain)
    plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", plain))
    return re.sub(r"[^\x00-\x7f]", "?", plain)


def _reason_without_atoms(text: str, n_blocks: int) -> str:
    if "_atom_site.Cartn_x" in text:
        return "a macromolecular CIF (_atom_site.Cartn_x) is not supported. Export it as PDB."
    count = f"{n_blocks} blocks" if n_blocks != 1 else "one block"
    return (
        "no atoms in the file"
        f" ({f'{count}, none with _atom_site_fract_x' if n_blocks else 'no data_ block'})"
    )


def _from_block(block: cif.Block, *, limits: Limits) -> Draft:
    name = block.name.strip()
    place = f"block {name}" if name else "the block without a name"
    try:
        draft = _structure(block, place, limits=limits)
    except Unreadable as error:
        draft = refused_draft(str(error))
    draft.id = name
    if name:
        draft.info["block"] = name
    return draft


def _structure(block: cif.Block, place: str, *, limits: Limits) -> Draft:
    if not _has_atoms(block):
        if column(block, "Cartn_x"):
            raise Unreadable(
                f"{place} has Cartesian coordinates only (_atom_site_Cartn_x), whose axes are"
                " not stated. Export with fractional coordinates (_atom_site_fract_x)."
            )
        raise Unreadable(f"{place} has a unit cell and no atoms (_atom_site_fract_x is missing)")
    cell, cell_note = _unit_cell(block, place)
    formula = parse_formula(value_of(block, "_chemical_formula_sum"))
    sites, site_notes = _sites(block, formula)
    symmetries = symmetries_of(block, place, cell=cell)
    drafts = [
        _draft(sites, symmetry, cell=cell, place=place, limits=limits) for symmetry in symmetries
    ]
    if len(drafts) > 1:
        drafts = [draft for draft in drafts if not _contradicts(draft, block, formula)]
        if len(drafts) != 1:
            raise ambiguous_origin(block, place)
    (draft,) = drafts
    for note in filter(None, [cell_note, *site_notes]):
        draft.warn(note)
    _warn_of_attached_hydrogens(draft, block, sites)
    if note := _mask_note(block):
        draft.warn(note)
    check_formula(draft, formula)
    _check_units_and_density(draft, block, formula)
    return draft


def _draft(
    sites: list[Site], symmetry: Symmetry, *, cell: UnitCell, place: str, limits: Limits
) -> Draft:
    draft = from_sites(
        sites,
        cell=cell,
        operations=symmetry.operations,
        operators_origin=symmetry.source,
        place=place,
        limits=limits,
    )
    for note in symmetry.notes:
        draft.warn(note)
    return draft


def _unit_cell(block: cif.Block, place: str) -> tuple[UnitCell, str]:
    """Return the unit cell and a warning, "" for none. Raises Unreadable if there is no cell.

    Angles that are missing are 90 degrees, the default of the CIF core dictionary.
    """
    lengths = [value_of(block, tag) for tag in _LENGTHS]
    angles = [value_of(block, tag) for tag in _ANGLES]
    if not all(lengths):
        missing = _LENGTHS[lengths.index("")]
        raise Unreadable(
            f"no unit cell in {place} ({missing} is missing). Export a molecule without a cell as"
            " XYZ."
        )
    note = ""
    if not any(angles):
        angles = ["90", "90", "90"]
        note = f"{place} has no cell angles; they were taken as 90 degrees, the default of CIF"
    elif not all(angles):
        missing = _ANGLES[angles.index("")]
        raise Unreadable(f"the unit cell of {place} is incomplete: {missing} is missing")
    texts = lengths + angles
    numbers = [
        number_of(text, what=tag) for tag, text in zip(_LENGTHS + _ANGLES, texts, strict=True)
    ]
    return unit_cell(numbers, texts=[without_uncertainty(text) for text in texts]), note


def _contradicts(draft: Draft, block: cif.Block, formula: dict[str, float]) -> bool:
    """Return whether the file's formula, Z or density differ from those of a filled cell."""
    if formula and formula_units(draft.symbols, formula) is None:
        return True
    if _misfit_of_units(draft, block, formula):
        return True
    stated, density = _densities(draft, block)
    return stated > 0 and abs(density - stated) > _DENSITY_TOLERANCE * stated


def _check_units_and_density(draft: Draft, block: cif.Block, formula: dict[str, float]) -> None:
    """Refuse or warn if the file's Z or density are not those of the filled cell.

    A wrong Z is refused if symmetry fills the cell and no density confirms its content: operators
    or atoms may be missing. It is a warning if the file lists all atoms, because exports of a
    primitive cell often keep the Z of the conventional one.
    """
    if not draft.symbols or draft.content_problem:
        return
    stated, density = _densities(draft, block)
    has_density = stated > 0
    is_confirmed = has_density and abs(density - stated) <= _DENSITY_TOLERANCE * stated
    misfit = _misfit_of_units(draft, block, formula)
    if misfit and not is_confirmed and len(draft.symbols) > len(column(block, "fract_x")):
        draft.content_problem = (
            f"{misfit}. Atoms or symmetry operators are missing or too many; export all atoms of"
            " the cell in P 1, or correct Z."
        )
    elif misfit:
        draft.warn(misfit)
    if has_density and abs(density - stated) > _DENSITY_WARNING * stated:
        draft.warn(
            f"the file states a density of {stated:g} g/cm3, and its atoms give {density:.3g};"
            " are atoms missing or doubled?"
        )


def _misfit_of_units(draft: Draft, block: cif.Block, formula: dict[str, float]) -> str:
    """Return the sentence that the cell has another number of formula units than Z, or ""."""
    units = formula_units(draft.symbols, formula) if formula else None
    stated = _optional_number(block, "_cell_formula_units_Z")
    if units is None or not stated or is_number_of_units(stated, units, formula):
        return ""
    noun = "formula unit" if units == 1 else "formula units"
    return f"the cell has {units:g} {noun}, and the file states Z = {stated:g}"


def _densities(draft: Draft, block: cif.Block) -> tuple[float, float]:
    """Return the density that the file states, 0 for none, and that of the atoms, in g/cm3."""
    stated = next(filter(None, (_optional_number(block, tag) for tag in _DENSITY_TAGS)), None)
    if stated is None or draft.cell is None:
        return 0.0, 0.0
    density = mass_density(draft.symbols, draft.cell)
    is_in_kg_per_m3 = abs(density - stated / 1000) < _DENSITY_WARNING * density
    return stated / 1000 if is_in_kg_per_m3 else stated, density


def _optional_number(block: cif.Block, tag: str) -> float | None:
    """Return the number of a tag, None if it is missing or no positive number."""
    try:
        value = number_of(value_of(block, tag), what=tag)
    except Unreadable:
        return None
    return value if value > 0 else None


def _sites(block: cif.Block, formula: dict[str, float]) -> tuple[list[Site], list[str]]:
    """Return the sites that hold atoms, and warnings on those that were left out."""
    x, y, z = (column(block, f"fract_{axis}") for axis in "xyz")
    n = len(x)
    if not len(y) == len(z) == n:
        raise Unreadable("_atom_site_fract_x, _y and _z have different lengths")
    types = column(block, "type_symbol", n)
    labels = column(block, "label", n)
    occupancies = column(block, "occupancy", n)
    groups = column(block, "disorder_group", n)
    assemblies = column(block, "disorder_assembly", n)
    calc_flags = column(block, "calc_flag", n)
    sites = []
    dummies = []
    empty = []
    for i in range(n):
        name = labels[i] or f"{types[i]}{i + 1}"
        if calc_flags[i].lower() == "dum" or is_vacant(types[i], labels[i]):
            dummies.append(name)
            continue
        occupancy = 1.0
        if occupancies[i]:
            occupancy = number_of(occupancies[i], what=f"the occupancy of atom {name}")
        if occupancy == 0:
            empty.append(name)
            continue
        symbol = site_element(types[i], labels[i], formula=formula)
        what = f"a coordinate of atom {name}"
        fractional = (
            number_of(x[i], what=what),
            number_of(y[i], what=what),
            number_of(z[i], what=what),
        )
        group = "" if groups[i] == "0" else groups[i]
        sites.append(Site(name, symbol, fractional, occupancy, group, assemblies[i]))
    return sites, [*left_out(dummies, "dummy atoms"), *left_out(empty, "sites of occupancy 0")]


def _warn_of_attached_hydrogens(draft: Draft, block: cif.Block, sites: list[Site]) -> None:
    """Warn if the file counts more hydrogen atoms at its sites than it lists."""
    counts = column(block, "attached_hydrogens")
    n_attached = sum(int(count) for count in counts if count.isascii() and count.isdigit())
    n_listed = sum(site.symbol in ("H", "D", "T") for site in sites)
    if n_attached > n_listed:
        draft.warn(
            f"the file states {n_attached} hydrogen atoms (_atom_site_attached_hydrogens) of its"
            f" asymmetric unit and lists {n_listed}; those that are missing are not predicted with"
        )


def _mask_note(block: cif.Block) -> str:
    """Return a warning if the density of disordered solvent was removed from the data, or ""."""
    tags = [tag.lower() for tag in tags_of(block)]
    if not any(tag.startswith(_MASKS) for tag in tags):
        return ""
    counts = [block.find_values(tag) for tag in tags if tag.endswith(_MASKED_ELECTRONS)]
    texts = [without_uncertainty(text) for column in counts for text in column]
    n_electrons = sum(float(text) for text in texts if TABLE_NUMBER.fullmatch(text))
    return masked_solvent(f"{n_electrons:g} electrons" if n_electrons else "its electrons")


def _blocks_one_by_one(text: str, error: Exception, *, max_blocks: int) -> list[cif.Block | Draft]:
    """Read the blocks of a file with a syntax error one by one, to keep those without errors."""
    blocks: list[cif.Block | Draft] = []
    is_cif2 = _CIF2_HEADER.match(text) is not None
    pieces = _pieces(text.split("\n"))
    if not pieces:
        return [refused_draft(f"not a CIF: {_located_message(error, 0)}")]
    for first, lines in pieces[: max_blocks + 1]:
        try:
            blocks += cif.read_string("\n".join(lines) + "\n", check_level=0)
        except (ValueError, RuntimeError) as block_error:
            header = _HEADER.match(lines[0].strip())
            name = header.group()[5:] if header else ""
            reason = _syntax_reason(block_error, first, lines, is_cif2=is_cif2)
            sentence = f"block {name} is not valid CIF: {reason}"
            draft = refused_draft(sentence)
            draft.id = name
            blocks.append(draft)
    return blocks


def _pieces(lines: list[str]) -> list[tuple[int, list[str]]]:
    """Return the first line number (from 0) and the lines of every block.

    A line with data_ inside a text field does not begin a block.
    """
    starts = []
    in_text_field = False
    for index, line in enumerate(lines):
        if line.startswith(";"):
            in_text_field = not in_text_field
        elif not in_text_field and _HEADER.match(line.strip()):
            starts.append(index)
    ends = [*starts[1:], len(lines)] if starts else []
    return [(start, lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _syntax_reason(
    error: Exception, n_lines_before: int, lines: list[str], *, is_cif2: bool
) -> str:
    """Return what is wrong with the lines of a block, with the most probable cause."""
    message = _located_message(error, n_lines_before)
    text = "\n".join(lines)
    if any(quotes in text for quotes in _TRIPLE_QUOTES):
        return f"{message}. Triple quotes are CIF 2.0, {_CIF1_ONLY}"
    if is_cif2 or _CIF2_VALUE.search(text):
        return f"{message}. The file is CIF 2.0, with lists or tables as values, {_CIF1_ONLY}"
    if glued := glued_numbers(text):
        return f"{message}. {quoted(glued)} is two numbers without a space."
    if uneven := _uneven_row(error, lines):
        return f"{message}. Line {uneven + n_lines_before} has another number of values than tags."
    return f"{message}. Is the file cut off?" if _is_at_end(error, lines) else f"{message}."


def _uneven_row(error: Exception, lines: list[str]) -> int:
    """Return the number, from 1, of the first row that does not fit the last loop, 0 if none.

    A last row that is too short is not counted: there the file may end early. Nor are loops with
    quotes or texts of several lines.
    """
    starts = [at for at, line in enumerate(lines) if line.strip().lower() == "loop_"]
    if "Wrong number of values" not in str(error) or not starts:
        return 0
    body = [(at, line.split()) for at, line in enumerate(lines) if at > starts[-1] and line.strip()]
    n_tags = sum(words[0].startswith("_") for _, words in body)
    rows = [(at, words) for at, words in body if not words[0].startswith("_")]
    if any(mark in word for _, words in rows for word in words for mark in ("'", '"', ";", "#")):
        return 0
    for at, words in rows:
        if len(words) > n_tags or (len(words) < n_tags and at != rows[-1][0]):
            return at + 1
    return 0


def _is_at_end(error: Exception, lines: list[str]) -> bool:
    """Return whether the text with the error goes on to the end of the block.

    That is a text without its closing quotes, or a last loop without a whole number of rows.
    """
    match = _AT_LINE.match(str(error))
    if match is None:
        return False
    rows = [index for index, line in enumerate(lines) if line.strip()]
    error_index = int(match.group(1)) - 1
    loops = [index for index in rows if lines[index].strip().lower() == "loop_"]
    is_in_last_loop = bool(loops) and error_index >= loops[-1]
    values = [index for index in rows if not lines[index].lstrip().startswith(("_", "loop_"))]
    ends_with_values = bool(values) and values[-1] == rows[-1]
    return error_index >= rows[-1] or (is_in_last_loop and ends_with_values)


def _located_message(error: Exception, lines_before: int) -> str:
    """Return gemmi's message with the line number in the file instead of the block."""
    match = _AT_LINE.match(str(error))
    return (
        f"line {int(match.group(1)) + lines_before}, {match.group(2)}"
        if match
        else quoted(str(error))
    )


def _has_atoms(block: cif.Block) -> bool:
    return any(has_column(block, f"fract_{axis}") for axis in "xyz")


def _has_cell(block: cif.Block) -> bool:
    return bool(value_of(block, _LENGTHS[0]))


_LINE = re.MULTILINE | re.IGNORECASE
FORMAT = Format(
    "CIF",
    label="CIF",
    read=read_cif,
    patterns=(
        re.compile(r"^[ \t]*data_", _LINE),
        re.compile(r"^[ \t]*_(?:cell|atom_site|symmetry|space_group)", _LINE),
    ),
)
