"""Entry of the interpreter that `bandgap.structures.isolation` starts to read files."""

import importlib
import os

from bandgap.structures.formats import FORMATS
from bandgap.structures.reader_process import serve


def main(module: str, function: str) -> None:
    """Answer requests on stdin, on stdout, by a function such as `reading.parts_of`."""
    parts_of = getattr(importlib.import_module(module), function)
    for form in FORMATS.values():  # loads the modules, without the limits of a file
        assert form.name
    requests, answers = os.dup(0), os.dup(1)
    serve(requests, answers, parts_of)
