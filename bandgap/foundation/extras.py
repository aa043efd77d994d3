"""Packages that not every installation has: how to install them, and the error without them."""

import importlib
from typing import Any

from bandgap.foundation.errors import ConfigError


def install_command(extra: str = "") -> str:
    """Return how to install an extra, or without one what bandgap itself needs.

    >>> install_command("hub")
    "`pip install -c constraints.txt '.[hub]'` in the folder of bandgap's README"
    """
    target = f"'.[{extra}]'" if extra else "."
    return f"`pip install -c constraints.txt {target}` in the folder of bandgap's README"


def not_installed(user: str, package: str | None, *, extra: str, end: str = "") -> ConfigError:
    """Return the error that what `user` needs is not installed; `end` follows what to install."""
    return ConfigError(
        f"{user} needs the package {package}, which is not installed. Install it by "
        f"{install_command(extra)}{end}."
    )


def package(name: str, *, extra: str, user: str, end: str = "") -> Any:
    """Import a module of an extra; raise ConfigError with what to install if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise not_installed(user, name.partition(".")[0], extra=extra, end=end) from None
