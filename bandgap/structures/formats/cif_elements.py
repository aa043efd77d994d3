"""The element of an atom site of a CIF: of its type symbol, or of its label without one.

A label begins with an element (CIF core dictionary, _atom_site_label), and what follows is free.
Labels that begin with something else, such as Wat or T1, are accepted only from a table of known
ones. All others, and labels that may mean two elements, such as FE1 or NaK, are refused, because a
wrong element gives a wrong crystal without a warning.
"""

import re
from collections.abc import Mapping

import gemmi

from bandgap.structures.draft import Unreadable
from bandgap.structures.elements import ELEMENTS, chemical_element, element_of, is_isotope
from bandgap.structures.symmetry import ADVICE

# Labels of the atoms of water and of hydroxyl groups.
_KNOWN_LABELS = {
    "wat": "O", "water": "O", "ow": "O", "owat": "O", "oh": "O", "hw": "H", "hwat": "H",
}  # fmt: skip
# Labels in capitals whose second letter always belongs to the element.
_WITHOUT_SUFFIX = ("Cl", "Br", "Si", "Se")
# Elements that label the neighbours of an atom, not a second element of its site: CAr, OSi, FeO.
_NO_SECOND = {"C", "H", "N", "O", "D"}
_SITE_LETTERS = {*_NO_SECOND, "B"}
_TOO_HEAVY = ELEMENTS[ELEMENTS.index("Fm") :]  # no crystals of these were made: No1, Cn1
_VACANT = {"vac", "vacancy", "bq", "gh", "du", "dum", "dummy", "lp"}
_WORD = re.compile(r"[A-Za-z]+")
_SEPARATORS = re.compile(r"[,;/&|]|(?<=[A-Za-z0-9])\+(?=[A-Za-z.\d])|\s\+\s")
_SHARES = re.compile(r"[A-Z][a-z]?\d*\.\d+")
_AMOUNT = re.compile(r"\d*\.?\d+")
_SYMBOL = re.compile(r"[A-Z][a-z]?")


def is_vacant(type_symbol: str, label: str) -> bool:
    """Return whether a site is a vacancy, a ghost or a dummy atom by its type symbol or label."""
    letters = re.match(r"[A-Za-z]*", type_symbol or label)
    return letters is not None and letters.group().lower() in _VACANT


def site_element(type_symbol: str, label: str, *, formula: Mapping[str, float]) -> str:
    """Return the element of a site, D or T included.

    Parameters
    ----------
    type_symbol
        Value of _atom_site_type_symbol, "" for none.
    label
        Value of _atom_site_label, "" for none.
    formula
        Count by element of the file's own formula, empty if it has none.

    Returns
    -------
    str
        The element; the type symbol itself if it is not one, which is refused later by its name.

    Raises
    ------
    Unreadable
        If the site has several elements, or if its label does not name one.
    """
    for text in (type_symbol, label):
        elements = _mixed_elements(text) or (_joined_elements(text) if text == type_symbol else [])
        if len(set(map(chemical_element, elements))) == 1:  # Fe2+ and Fe3+, or H and D
            return elements[0]
        if elements:
            raise Unreadable(
                f"atom {label or type_symbol} has the elements {' and '.join(elements)}"
                f" ({text!r}). {ADVICE}"
            )
    if type_symbol:
        return type_symbol if is_isotope(type_symbol) else element_of(type_symbol) or type_symbol
    word = _WORD.match(label)
    letters = word.group() if word else ""
    if element := _KNOWN_LABELS.get(letters.lower()):
        return element
    candidates = _elements_of_letters(letters, formula)
    if len(candidates) == 1:
        candidates += _element_after(label, candidates[0], formula)
    if len(candidates) > 1:
        raise Unreadable(
            f"the label {label!r} may mean {' or '.join(candidates)}. Add the element of every atom"
            " as _atom_site_type_symbol."
        )
    if not candidates:
        raise Unreadable(
            f"the label {label!r} names no element. Add the element of every atom as"
            " _atom_site_type_symbol."
        )
    return candidates[0]


def _elements_of_letters(letters: str, formula: Mapping[str, float]) -> list[str]:
    """Return the elements that a label's first letters may mean.

    The first one or two letters may be an element; the formula decides where it can. Without a
    formula, two capital letters may be both. Letters that go on in lower case are a word, which
    counts only if the formula has its element.
    """
    one = element_of(letters[:1])
    two = element_of(letters[:2]) if len(letters) > 1 else ""
    is_deuterium = letters == "D" and (not formula or "H" in formula)
    if one == "T" or (one == "D" and not is_deuterium):
        one = ""
    begins_another = letters[1:2].isupper() and letters[2:3].islower()  # OSi, not Os
    if begins_another or (two in _TOO_HEAVY and two not in formula):
        two = ""
    if not two:
        element = one
    elif not one or two in formula or (letters[1].islower() and one not in formula):
        element = two
    elif one in formula or formula:
        element = one
    elif two in _WITHOUT_SUFFIX:
        element = two
    else:
        return [one, two]
    is_word = letters[len(element) : len(element) + 1].islower()
    # WA1 is rather an atom of a water molecule than tungsten, whose labels have numbers: W1A.
    is_word = is_word or (element == "W" and len(letters) > 1)
    return [element] if element and (element in formula or not is_word) else []


def _element_after(label: str, element: str, formula: Mapping[str, float]) -> list[str]:
    """Return the second element that a label such as NaK or FeCo1 names, or an empty list.

    A single letter is also the name of a site, as in FeA. It counts as an element if both are
    metals, or both are not, and if the file's formula does not lack it.
    """
    match = re.match(r"[_-]?([A-Z][a-z]?)(?![a-z])", label[len(element) :])
    second = match.group(1) if match else ""
    if element in _NO_SECOND or second not in ELEMENTS or second in {element, *_SITE_LETTERS}:
        return []
    if formula and second not in formula:
        return []
    is_alike = gemmi.Element(element).is_metal == gemmi.Element(second).is_metal
    return [second] if len(second) == 2 or is_alike else []


def _mixed_elements(text: str) -> list[str]:
    """Return the elements of a site with several: Nb,Zr or 0.75Si + 0.25Al."""
    components = [component.strip(" ()") for component in _SEPARATORS.split(text)]
    if len(components) < 2:
        components = _SHARES.findall(text) if _SHARES.sub("", text) == "" else []
    if len(components) < 2:
        return []
    elements = [element_of(_AMOUNT.sub("", component).strip()) for component in components]
    return elements if all(elements) else []


def _joined_elements(text: str) -> list[str]:
    """Return the elements of a type symbol such as NaK, an empty list if it is not of several."""
    elements = _SYMBOL.findall(text)
    is_complete = "".join(elements) == text and not element_of(text)
    return elements if is_complete and all(element_of(element) for element in elements) else []
