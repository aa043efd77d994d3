"""Transfer methods: one file for each, which describes the method in its `METHOD`.

`METHODS` has those of this package and all entry points of the group `bandgap.methods`: the
research methods, and those of other packages. A method's module is imported when the method is
first used, so that predicting loads no sampler.

Not here: what several methods share (`shared`), samplers (`inference`), posteriors (`posterior`),
methods for research (`research`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.lazy import Registry, names_of

if TYPE_CHECKING:
    from bandgap.transfer.shared.method import Method, TargetData

# In the order in which they are listed; each is a module of this package.
_CORE = (
    "btl_pcp_pe",
    "feature_gp",
    "nptl",
    "last_layer_horseshoe",
    "last_layer_pcp",
    "last_layer_ridge",
    "ensemble",
    "fine_tune",
    "freeze",
    "target_only",
    "kernel_ridge",
    "gaussian_process",
    "random_forest",
    "gradient_boosting",
    "fresh_networks",
    "parts_gp",
    "stacking",
)

METHODS: Mapping[str, "Method"] = Registry(
    {name: f"{__name__}.{name}:METHOD" for name in _CORE}, group="bandgap.methods"
)


def check_method_name(name: str) -> None:
    """Raise ConfigError, which lists the names, if there is no method of this name.

    It imports no method.
    """
    if name not in METHODS:
        raise ConfigError(
            f"transfer method {name!r} does not exist. Accepted: {', '.join(METHODS)}."
        )


def get_method(name: str) -> "Method":
    """Return the method of this name; raises ConfigError that lists the names."""
    check_method_name(name)
    return METHODS[name]


def without_source(name: str) -> "Method":
    """Return the method of this name, to be used without a source model.

    Raises ConfigError for a method that transfers from a source model.
    """
    method = get_method(name)
    if method.transfers:
        accepted = ", ".join(other for other in METHODS if not METHODS[other].transfers)
        raise ConfigError(
            f"{name} transfers from a source model, and the source is none. Give one: `--source "
            "DIR` (on the page Train, Source model), or a "
            f"method without transfer: {accepted}."
        )
    return method


__all__ = [
    "METHODS",
    "Method",
    "TargetData",
    "check_method_name",
    "get_method",
    "without_source",
]

__getattr__ = names_of(
    __name__,
    {"Method": "bandgap.transfer.shared.method", "TargetData": "bandgap.transfer.shared.method"},
)
