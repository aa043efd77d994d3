"""Links to the page Guide, among them those at the end of help texts."""

import re

from app import session

PAGE = "guide"  # in the address


def slug(heading: str) -> str:
    """Return the anchor of a heading, as the built documentation has it.

    >>> slug("Three kinds of intervals"), slug("`sd_eV`")
    ('three-kinds-of-intervals', 'sd_ev')
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace(" ", "-"))


def help_link(document: str, heading: str) -> str:
    """Return the end of a help text: a link to a heading of the Guide, which opens a new tab.

    It contains the workspace, so it is called while a page is drawn. It does not contain the
    choices: a widget whose help text changes loses its value.

    Parameters
    ----------
    document
        Path of the document below `docs/` without its ending, such as explanation/intervals.
    heading
        Text of the heading. A test checks that the document has it.
    """
    address = session.address(PAGE, with_choices=False, page=document, heading=slug(heading))
    return f"\n\n[Guide: {heading}]({address})"
