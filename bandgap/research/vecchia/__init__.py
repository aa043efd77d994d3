"""Gaussian processes for many rows by Vecchia's approximation, samplers of the scales, and kriging.

Not here: the meaning and source of the coordinates.
"""

_MODULES = ("gp",)


def __getattr__(name: str) -> object:
    """Return the module `gp`, loaded when it is first used."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
