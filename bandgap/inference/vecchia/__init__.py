"""Gaussian processes for many rows: each given its nearest earlier ones (Vecchia), samplers of the scales, kriging.

Not here: what coordinates mean, and where they come from.
"""

_MODULES = ("gp",)


def __getattr__(name: str) -> object:
    """Return the module `gp`, loaded when it is first used."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
