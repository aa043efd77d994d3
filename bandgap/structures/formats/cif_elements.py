"""The element of an atom site of a CIF: of its type symbol, or of its label without one.

A label begins with an element (CIF core dictionary, _atom_site_label), and what follows is free.
Labels that begin with something else, such as Wat or T1, are accepted only from a table of known
ones; all others are refused, because a wrong element gives a wrong crystal without a warning.
"""

import re
from collections.abc import Mapping

from bandgap.structures.draft import Unreadable
from bandgap.structures.elements import element_of
from bandgap.structures.symmetry import ADVICE

# Labels of the atoms of water and of hydroxyl groups.
_KNOWN_LABELS = {
    "wat": "O", "water": "O", "ow": "O", "owat": "O", "oh": "O", "hw": "H", "hwat": "H",
}  # fmt: skip
# Elements that labels may continue with a letter: CA1 is carbon unless the formula has Ca.
_CONTINUED = {"C", "H", "N", "O", "S", "P", "F", "B", "I"}
_ISOTOPES = {"D", "T"}
_WORD = re.compile(r"[A-Za-z]+")
_SEPARATORS = re.compile(r"[,;/&|]|(?<=[A-Za-z0-9])\+(?=[A-Za-z.\d])|\s\+\s")
_SHARES = re.compile(r"[A-Z][a-z]?\d*\.\d+")
_AMOUNT = re.compile(r"\d*\.?\d+")


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
        elements = _mixed_elements(text)
        if elements:
            raise Unreadable(
                f"atom {label or type_symbol} has the elements {' and '.join(elements)}"
                f" ({text!r}). {ADVICE}"
            )
    if type_symbol:
        return element_of(type_symbol) or type_symbol
    word = _WORD.match(label)
    letters = word.group() if word else ""
    element = _KNOWN_LABELS.get(letters.lower()) or _element_of_letters(letters, formula)
    if not element:
        raise Unreadable(
            f"the label {label!r} names no element. Add the element of every atom as"
            " _atom_site_type_symbol."
        )
    return element


def _element_of_letters(letters: str, formula: Mapping[str, float]) -> str:
    """Return the element at the beginning of a label's letters, "" if there is none.

    The first one or two letters may be an element; the formula decides where it can. Letters that
    go on in lower case are a word, which counts only if the formula has its element.
    """
    one = element_of(letters[:1])
    two = element_of(letters[:2]) if len(letters) > 1 else ""
    if one in _ISOTOPES and one not in formula:
        one = ""
    if not two:
        element = one
    elif not one or two in formula or (letters[1].islower() and one not in formula):
        element = two
    elif one in formula or (one in _CONTINUED and two not in ("Cl", "Br", "Si", "Se")):
        element = one
    else:
        element = two
    is_word = letters[len(element) : len(element) + 1].islower()
    return "" if is_word and element not in formula else element


def _mixed_elements(text: str) -> list[str]:
    """Return the elements of a site with several: Nb,Zr or 0.75Si + 0.25Al."""
    components = [component.strip(" ()") for component in _SEPARATORS.split(text)]
    if len(components) < 2:
        components = _SHARES.findall(text) if _SHARES.sub("", text) == "" else []
    if len(components) < 2:
        return []
    elements = [element_of(_AMOUNT.sub("", component).strip()) for component in components]
    return elements if all(elements) else []
