"""Read responses of OPTIMADE: the structures in `data`, one entry or a list, with their properties.

References: M. L. Evans et al., Digital Discovery 3, 1509 (2024); the property definitions of
OPTIMADE 1.2. Sites with more than one element or with less than one atom are disordered and
refused.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.foundation.json_nesting import MAX_NESTING, nesting_depth
from bandgap.structures.draft import Draft, Format, Unreadable, refused_draft
from bandgap.structures.formats.json_values import short_values
from bandgap.structures.records import InfoValue, Limits

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
_FULL = 0.999  # smallest concentration of a fully occupied site
_MORE = (
    "the server has more structures than this response (more_data_available). Fetch the next pages"
    " too, by links.next or a larger page_limit, if you need them"
)


def read_optimade(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every entry of a response. Raises Unreadable if it is not a response."""
    if nesting_depth(text) > MAX_NESTING:
        raise Unreadable(
            f"not JSON that can be read: it is nested deeper than {MAX_NESTING} levels"
        )
    try:
        response = json.loads(text)
        entries = response["data"]
    except ValueError as error:
        raise Unreadable(
            f"not JSON that can be read ({quoted(str(error))}). Is the file cut off?"
        ) from None
    except (KeyError, TypeError):
        raise Unreadable("JSON without the key data at its top: no response of OPTIMADE") from None
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], start=1):
        fields = entry if isinstance(entry, dict) else {}
        name = fields.get("id")
        attributes = fields.get("attributes")
        try:
            if not isinstance(attributes, dict):
                raise Unreadable("an entry of the response without attributes")
            draft = draft_of(attributes, limits=limits)
        except Unreadable as error:
            draft = refused_draft(str(error))
        draft.id = name if isinstance(name, str) else ""
        draft.suffix = str(number)
        yield draft
    if _has_more(response):
        yield refused_draft(_MORE, suffix="more")


def _has_more(response: Mapping[str, Any]) -> bool:
    """Return whether the server says that it has more structures than this response."""
    meta = response.get("meta")
    return isinstance(meta, dict) and meta.get("more_data_available") is True


def draft_of(attributes: Mapping[str, Any], *, limits: Limits) -> Draft:
    """Return the draft of a structure from attributes. Raises Unreadable if they are invalid."""
    sites = attributes.get("species_at_sites")
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
        raise Unreadable("species_at_sites must be a list of names, one for every site")
    if len(sites) > limits.max_atoms:
        raise Unreadable(
            f"the structure has {len(sites):,} atoms; the limit is {limits.max_atoms:,}"
        )
    symbols, attached = _symbols(attributes.get("species"))
    positions = _numbers(attributes.get(MARK), MARK)
    if positions.shape != (len(sites), 3):
        raise Unreadable(f"{MARK} must be three coordinates for each of {len(sites)} sites")
    draft = Draft(
        [symbols.get(str(site), str(site)) for site in sites], positions, info=_info(attributes)
    )
    n_attached = sum(attached.get(str(site), 0) for site in sites)
    if n_attached:
        draft.warn(
            f"the species state {n_attached:,} attached atoms, mostly hydrogen, which have"
            " no positions and are missing here"
        )
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


def _symbols(species: object) -> tuple[dict[str, str], dict[str, int]]:
    """Return the element, and the number of attached atoms, of every species by its name."""
    element_of_species = {}
    attached_to_species = {}
    for kind in species if isinstance(species, list) else []:
        try:
            name = str(kind["name"])
            symbols = list(kind["chemical_symbols"])
            concentrations = list(kind["concentration"])
            is_full = [float(concentration) >= _FULL for concentration in concentrations]
            n_attached = sum(int(n) for n in kind.get("nattached") or [])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise Unreadable("species must have name, chemical_symbols and concentration") from None
        if len(symbols) != 1 or is_full != [True]:
            components = ", ".join(
                f"{s} {c}" for s, c in zip(symbols, concentrations, strict=False)
            )
            raise Unreadable(
                f"sites of {quoted(name)} contain {quoted(components)}. Disordered structures are"
                " not supported; export one ordered component."
            )
        element_of_species[name] = str(symbols[0])
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
    patterns=(re.compile(r'"data"\s*+:'), re.compile(f'"{MARK}"')),
    suffixes=("json",),
)
