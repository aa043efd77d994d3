"""Recognise text outputs that are not read, to say why and what to give instead."""

import re

from bandgap.calculations.packed_xml import unpacked_head
from bandgap.structures.contents import Content

_HEAD_BYTES = 16_384
_NAME = re.compile(r"OUTCAR.*|.*\.(out|outp|output|log)(\.gz)?|.*(aims|crystal).*", re.IGNORECASE)
_NO_READER = (
    "Write its gap into a table (bandgap transfer --labels), and give the structure as a file; see"
    ' "Other programs" in docs/how-to/from-calculations-to-labels'
)
# Beginning of an output, and why it is not read.
_OUTPUTS = (
    (
        re.compile(rb"Invoking FHI-aims"),
        "an output of FHI-aims is not read: by default it lists the eigenvalues of one k-point, so"
        f" that its gap cannot be found by counting electrons. {_NO_READER} (geometry.in)",
    ),
    (
        re.compile(rb"\*\s+CRYSTAL\d\d\s+\*|www\.crystal\.unito\.it", re.IGNORECASE),
        "an output of CRYSTAL is not read: no reader of its eigenvalues is compatible with NumPy 2."
        f" {_NO_READER}",
    ),
    (
        re.compile(rb"Program PWSCF"),
        "a text output of Quantum ESPRESSO is not read, because it rounds eigenvalues and lists few"
        " settings. Give the XML file of the calculation: PREFIX.xml, or data-file-schema.xml in"
        " the folder PREFIX.save",
    ),
    (
        re.compile(rb"\A\s*vasp\.\d"),
        "an OUTCAR is not read, because the vasprun.xml alone states settings and eigenvalues"
        " completely. Give the vasprun.xml of the calculation",
    ),
)


def is_named_as_output(name: str) -> bool:
    """Return whether a file has a name that text outputs have."""
    return _NAME.fullmatch(name) is not None


def reason_of_text_output(content: Content) -> str:
    """Return why a text output of a program is not read, "" for any other file."""
    head = unpacked_head(content, _HEAD_BYTES)
    return next((reason for pattern, reason in _OUTPUTS if pattern.search(head)), "")
