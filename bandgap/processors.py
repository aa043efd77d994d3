"""Whose the processor is: libraries of matrix products favour their own."""

import functools
import os
from pathlib import Path


@functools.cache
def made_by_amd() -> bool:
    """Return whether this processor is one of AMD's, as Linux or Windows says; False where nobody says."""
    try:
        said = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        said = os.environ.get("PROCESSOR_IDENTIFIER", "")
    return "AuthenticAMD" in said
