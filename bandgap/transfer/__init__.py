"""Transfer methods: one file each, one line each in the registry; shell, worker, pages and tests read it.

Not here: what several methods share (`shared/`), samplers (`inference`), posteriors (`posterior`).
"""

from collections.abc import Mapping

from bandgap.foundation.errors import ConfigError
from bandgap.transfer import (
    bnn,
    btl_bnn,
    btl_pcp,
    btl_pcp_sg,
    btl_pcp_vi,
    btl_vi,
    ensemble,
    feature_gp,
    fine_tune,
    freeze,
    gaussian_process,
    gradient_boosting,
    kernel_ridge,
    l2sp,
    last_layer_horseshoe,
    last_layer_ols,
    last_layer_pcp,
    last_layer_ridge,
    mc_dropout,
    nptl,
    nptl_head,
    nptl_soup,
    parts_gp,
    pbp,
    ptyl,
    random_forest,
    sghmc,
    sspbp,
    stacking,
    target_only,
    two_stage,
    ulisse_gp,
    vecchia_gp,
)
from bandgap.transfer.shared.method import Method, TargetData

METHODS: Mapping[str, Method] = {
    module.METHOD.name: module.METHOD
    for module in (
        btl_pcp,
        btl_pcp_sg,
        btl_pcp_vi,
        btl_vi,
        pbp,
        sspbp,
        btl_bnn,
        bnn,
        feature_gp,
        vecchia_gp,
        ulisse_gp,
        nptl,
        nptl_head,
        nptl_soup,
        last_layer_horseshoe,
        last_layer_pcp,
        last_layer_ridge,
        last_layer_ols,
        mc_dropout,
        ensemble,
        l2sp,
        ptyl,
        sghmc,
        fine_tune,
        two_stage,
        freeze,
        target_only,
        kernel_ridge,
        gaussian_process,
        random_forest,
        gradient_boosting,
        parts_gp,
        stacking,
    )
}


def get_method(name: str) -> Method:
    """Return the method of this name; raises ConfigError that lists the names."""
    if name not in METHODS:
        raise ConfigError(f"transfer method {name!r} does not exist. Accepted: {', '.join(METHODS)}.")
    return METHODS[name]


def without_source(name: str) -> Method:
    """Return the method of this name; raises ConfigError where it transfers from a source model, and there is none."""
    method = get_method(name)
    if method.transfers:
        others = ", ".join(name for name, other in METHODS.items() if not other.transfers)
        raise ConfigError(
            f"{name} transfers from a source model, and the source is none. Give one (`--source DIR`, which `bandgap "
            f"train-source` writes, or choose it on the page Train), or a method without transfer: {others}."
        )
    return method


__all__ = ["METHODS", "Method", "TargetData", "get_method", "without_source"]
