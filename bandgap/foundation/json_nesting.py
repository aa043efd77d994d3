"""The nesting depth of JSON text, which has to be known before a parser of it recurses.

A parser that recurses to the end of the interpreter's stack does more than raise RecursionError: the garbage collector
can run there, and then every destructor that it calls fails.
"""

import re

MAX_NESTING = 100  # lists and objects inside each other; structures need about ten

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[{]+|[\]}]+")


def nesting_depth(text: str) -> int:
    """Return how many lists and objects of JSON text are open at the same time, at most.

    Brackets inside strings do not count. The text need not be valid JSON: for invalid text, the depth up to the first
    error is at most what is returned.
    """
    depth = 0
    deepest = 0
    for brackets in _BRACKETS.findall(_STRING.sub("", text)):
        if brackets[0] in "[{":
            depth += len(brackets)
            deepest = max(deepest, depth)
        else:
            depth -= len(brackets)
    return deepest
