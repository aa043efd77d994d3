"""Entry of the interpreter that `bandgap.structures.isolation` starts to read files."""

import os

from bandgap.structures.formats import FORMATS
from bandgap.structures.reader_process import serve
from bandgap.structures.reading import parts_of


def main() -> None:
    """Answer requests on stdin, on stdout."""
    for form in FORMATS.values():  # loads the modules, without the limits of a file
        assert form.name
    requests, answers = os.dup(0), os.dup(1)
    serve(requests, answers, parts_of)
