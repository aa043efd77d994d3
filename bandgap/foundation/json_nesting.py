"""The nesting depth of JSON text, which must be known before a parser recurses into it.

At the end of the interpreter's stack, not only RecursionError is raised: the garbage collector can
run there, and every destructor that it calls then fails.
"""

import re

# Lists and objects inside each other; structures need about ten.
MAX_NESTING = 100

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[{]+|[\]}]+")


def nesting_depth(text: str) -> int:
    """Return the largest number of lists and objects of JSON text that are open together.

    Brackets inside strings do not count. The text need not be valid JSON: the depth of invalid text
    up to its first error is at most the returned value.
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
