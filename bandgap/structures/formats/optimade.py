"""Read responses of OPTIMADE: the structures in `data`, one entry or a list, with their properties.

References: M. L. Evans et al., Digital Discovery 3, 1509 (2024); the property definitions of
OPTIMADE 1.2. Sites with more than one element or with less than one atom are disordered and
refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import Draft, Format, Unreadable, refused_draft
from bandgap.structures.formats.json_values import parse_json, short_values
from bandgap.structures.formula import check_formula, parse_formula
from bandgap.structures.records import InfoValue, Limits
from bandgap.structures.symmetry import ADVICE, left_out, only_element

MARK = "cartesian_site_positions"  # key of every structure with coordinates
_STRUCTURAL = {
    MARK,
    "species_at_sites",
    "species",
    "lattice_vectors",
    "dimension_types",
    "nsites",
    "elements",
    "type",
}
_DEEPEST = 3  # levels above a response: structures, filter, address
_VACANCY = "vacancy"  # symbol of a site without an atom
_MORE = (
    "the server has more structures than this response (more_data_available). Fetch the next pages"
    " too, by links.next or a larger page_limit, if you need them"
)


def read_optimade(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every entry of a response. Raises Unreadable if it is not a response."""
    responses = _responses(parse_json(text))
    if not responses:
        raise Unreadable("JSON without the key data at its top: no response of OPTIMADE")
    entries = [entry for response in responses for entry in _entries(response)]
    for number, entry in enumerate(entries, start=1):
        fields = entry if isinstance(entry, dict) else {}
        name = fields.get("id")
        attributes = fields.get("attributes")
        try:
            if not isinstance(attributes, dict):
                raise Unreadable("an entry of the response without attributes")
            draft = draft_of(attributes)
        except Unreadable as error:
            draft = refused_draft(str(error))
        draft.id = name if isinstance(name, str) else ""
        draft.suffix = str(number)
        yield draft
    if any(map(_has_more, responses)):
        yield refused_draft(_MORE, suffix="more")


def _responses(content: Any, *, depth: int = 0) -> list[Mapping[str, Any]]:
    """Return the responses in JSON: one, entries alone, or those that optimade-client saves.

    The client saves them by filter and by address of the provider, under the key structures.
    """
    if isinstance(content, list):
        entries = [entry for entry in content if not _is_of_another_kind(entry)]
        return [{"data": entries}] if any(map(_is_entry, entries)) else []
    if not isinstance(content, dict):
        return []
    if "data" in content:
        return [content]
    if _is_entry(content):
        return [{"data": content}]
    if MARK in content:
        return [{"data": {"attributes": content, "id": content.get("id")}}]
    if depth == _DEEPEST:
        return []
    return [
        response for value in content.values() for response in _responses(value, depth=depth + 1)
    ]


def _entries(response: Mapping[str, Any]) -> list[Any]:
    data = response["data"]
    return data if isinstance(data, list) else [data]


def _is_entry(value: Any) -> bool:
    """Return whether a value is a structure of a response."""
    return isinstance(value, dict) and isinstance(value.get("attributes"), dict)


def _has_more(response: Mapping[str, Any]) -> bool:
    """Return whether the server says that it has more structures than this response."""
    meta = response.get("meta")
    return isinstance(meta, dict) and meta.get("more_data_available") is True


def draft_of(attributes: Mapping[str, Any]) -> Draft:
    """Return the draft of a structure from attributes. Raises Unreadable if they are invalid."""
    sites = attributes.get("species_at_sites")
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
        raise Unreadable("species_at_sites must be a list of names, one for every site")
    n_sites = attributes.get("nsites")
    if isinstance(n_sites, int) and n_sites != len(sites):
        raise Unreadable(f"the entry has nsites {n_sites:,} and lists {len(sites):,} sites")
    _refuse_features(attributes.get("structure_features"))
    symbols, attached = _symbols(attributes.get("species"))
    positions = _numbers(attributes.get(MARK), MARK)
    if positions.shape != (len(sites), 3):
        raise Unreadable(f"{MARK} must be three coordinates for each of {len(sites)} sites")
    elements = [symbols.get(site, site if not symbols else "") for site in sites]
    if "" in elements:
        raise Unreadable(f"the site {quoted(sites[elements.index('')])} has no entry in species")
    is_vacant = [element == _VACANCY for element in elements]
    draft = Draft(
        [element for element in elements if element != _VACANCY],
        positions[~np.array(is_vacant, dtype=bool)],
        info=_info(attributes),
    )
    vacancies = [f"{n} ({site})" for n, site in enumerate(sites, start=1) if is_vacant[n - 1]]
    for note in left_out(vacancies, "vacancies"):
        draft.warn(note)
    n_attached = sum(attached.get(site, 0) for site in sites)
    if n_attached:
        draft.warn(
            f"the species state {n_attached:,} attached atoms, mostly hydrogen, which have"
            " no positions and are missing here"
        )
    else:
        check_formula(draft, parse_formula(str(attributes.get("chemical_formula_reduced") or "")))
    vectors = attributes.get("lattice_vectors")
    if vectors is not None:
        draft.cell = np.nan_to_num(_numbers(vectors, "lattice_vectors"))
        periodic = attributes.get("dimension_types")
        periodic = [1, 1, 1] if periodic is None else periodic
        if draft.cell.shape != (3, 3) or not isinstance(periodic, list) or len(periodic) != 3:
            raise Unreadable(
                "lattice_vectors must be three vectors, and dimension_types three of 0 and 1"
            )
        draft.pbc = bool(periodic[0]), bool(periodic[1]), bool(periodic[2])
    return draft


def _is_of_another_kind(value: Any) -> bool:
    """Return whether a value is the header of JSON lines, or an entry of another type."""
    if not isinstance(value, dict):
        return False
    return "x-optimade" in value or value.get("type", "structures") != "structures"


def _refuse_features(features: object) -> None:
    """Raise Unreadable if the features of a structure say that its sites are not all its atoms."""
    stated = {str(feature) for feature in features} if isinstance(features, list) else set()
    if "implicit_atoms" in stated:
        raise Unreadable(
            "the entry has atoms without positions (implicit_atoms). Export the structure with the"
            " positions of all atoms"
        )
    disorder = sorted(stated & {"disorder", "assemblies"})
    if disorder:
        raise Unreadable(f"the entry has the feature {disorder[0]}. {ADVICE}")


def _symbols(species: object) -> tuple[dict[str, str], dict[str, int]]:
    """Return the element, and the number of attached atoms, of every species by its name."""
    element_of_species = {}
    attached_to_species = {}
    for kind in species if isinstance(species, list) else []:
        try:
            name = str(kind["name"])
            symbols = list(kind["chemical_symbols"])
            concentrations = list(map(float, kind["concentration"]))
            n_attached = sum(int(n) for n in kind.get("nattached") or [])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise Unreadable("species must have name, chemical_symbols and concentration") from None
        shares = list(zip(map(str, symbols), concentrations, strict=False))
        element_of_species[name] = only_element(shares, f"a site of {quoted(name)}")
        attached_to_species[name] = n_attached
    return element_of_species, attached_to_species


def _numbers(values: object, name: str) -> NDArray[np.float64]:
    """Return nested lists of numbers as an array, with NaN for null."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable(f"{name} must be lists of numbers") from None


def _info(attributes: Mapping[str, Any]) -> dict[str, InfoValue]:
    values = short_values(attributes)
    return {key: value for key, value in values.items() if key not in _STRUCTURAL}


FORMAT = Format(
    "OPTIMADE",
    label="OPTIMADE .json",
    read=read_optimade,
    patterns=(re.compile(f'"{MARK}"'),),
)
