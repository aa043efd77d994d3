"""Settings that make a method quick; one that is not named here runs with its defaults.

QUICK is for what must have learned something, BRIEF for everything else.
"""

import pytest

# Methods whose chains run long by their nature: fits of all settings are among the slow tests.
LONG = ("btl_pcp_sg",)

FEW_EPOCHS = {"patience": 15, "batch_size": 8, "learning_rate": 3e-3}
STACKED = {"epochs": 40, "batch_size": 8, "learning_rate": 3e-3}
SHORT = {"epochs": 3, "batch_size": 8, "learning_rate": 3e-3}
FEW_DRAWS = {"sampler": {"chains": 2, "warmup": 40, "draws": 40, "keep": 40, "max_steps": 10}}
FEWER_DRAWS = {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 4, "max_steps": 6}}
BATCHES = {
    "sampler": {
        "chains": 2,
        "warmup": 60,
        "draws": 80,
        "keep": 40,
        "batch_size": 20,
        "search": 60,
    }
}
FEW_BATCHES = {
    "sampler": {"chains": 2, "warmup": 10, "draws": 16, "keep": 4, "batch_size": 8, "search": 10}
}
QUICK = {
    "btl_pcp_pe": FEW_DRAWS,
    "btl_pcp_sg": BATCHES,
    "btl_pcp_vi": FEW_DRAWS,
    "btl_vi": {
        "draws": 40,
        "kappas": [0.01, 1.0],
        "training": {"epochs": 60, "learning_rate": 1e-2},
    },
    "btl_bnn": FEW_DRAWS,
    "bnn": FEW_DRAWS,
    "feature_gp": {"draws": 16, "proposals": 60, "rounds": 2},
    "vecchia_gp": {"process": {"metropolis": {"chains": 2, "warmup": 40, "draws": 60}}},
    "ulisse_gp": {"solves": {"warmup": 20, "draws": 40}},
    "nptl": {"samples": 4, "choice_samples": 2, "alphas": [0, 1, 100], "training": STACKED},
    "nptl_head": {"samples": 20, "choice_samples": 5},
    "nptl_soup": {"samples": 4, "choice_samples": 2, "alphas": [1], "training": STACKED},
    "last_layer_horseshoe": {"sampler": {"chains": 2, "warmup": 100, "draws": 100, "keep": 100}},
    "mc_dropout": {"passes": 20, "training": FEW_EPOCHS | {"max_epochs": 60}},
    "ensemble": {"members": 3, "fold_members": 1, "training": STACKED},
    "l2sp": {"members": 2, "fold_members": 1, "training": STACKED},
    "ptyl": {"members": 2, "training": STACKED},
    "sghmc": {"chains": 2, "cycles": 3, "epochs": 20, "batch_size": 8, "learning_rate": 1e-3},
    "fine_tune": {"training": FEW_EPOCHS | {"max_epochs": 60}},
    "two_stage": {
        stage: FEW_EPOCHS | {"max_epochs": 60} for stage in ("output_layer", "all_layers")
    },
    "freeze": {"training": FEW_EPOCHS | {"max_epochs": 60}},
    "target_only": {"training": FEW_EPOCHS | {"max_epochs": 60}},
    "kernel_ridge": {"folds": 5},
    "gaussian_process": {"restarts": 0},
    "random_forest": {"folds": 5, "trees": 20, "feature_share": 1.0},
    "gradient_boosting": {"folds": 5, "trees": 60, "learning_rate": 0.1, "feature_share": 1.0},
    "fresh_networks": {"hidden": [32, 16], "epochs": 60, "training": {"batch_size": 16}},
    "parts_gp": {"draws": 16, "proposals": 60, "rounds": 2},
}
QUICK["stacking"] = {
    name: QUICK[name] for name in ("parts_gp", "kernel_ridge", "gradient_boosting")
}
BRIEF = {
    "btl_pcp_pe": FEWER_DRAWS,
    "btl_pcp_sg": FEW_BATCHES,
    "btl_pcp_vi": FEWER_DRAWS,
    "btl_vi": {"draws": 4, "kappas": [1.0], "training": {"epochs": 3}},
    "pbp": {"passes": 2},
    "btl_bnn": FEWER_DRAWS,
    "bnn": FEWER_DRAWS,
    "feature_gp": {"draws": 8, "proposals": 50, "rounds": 2},
    "vecchia_gp": {"process": {"nu": 1.5, "metropolis": {"chains": 2, "warmup": 25, "draws": 25}}},
    "ulisse_gp": {"solves": {"warmup": 5, "draws": 10}, "keep": 4},
    "nptl": {"samples": 2, "choice_samples": 1, "alphas": [0, 1], "training": SHORT},
    "nptl_head": {"samples": 3, "choice_samples": 2},
    "nptl_soup": {"samples": 2, "choice_samples": 1, "alphas": [1], "training": SHORT},
    "last_layer_horseshoe": {"sampler": {"chains": 2, "warmup": 50, "draws": 25, "keep": 8}},
    "last_layer_pcp": {"chains": 2, "draws": 5},
    "last_layer_ridge": {"chains": 3, "draws": 5},
    "last_layer_ols": {"chains": 3, "draws": 5},
    "mc_dropout": {"passes": 3, "training": FEW_EPOCHS | {"max_epochs": 5}},
    "ensemble": {"members": 2, "fold_members": 1, "training": SHORT},
    "l2sp": {"members": 2, "fold_members": 1, "strengths": [0.1, 1], "training": SHORT},
    "ptyl": {"members": 2, "gammas": [1, 100], "training": SHORT},
    "sghmc": {"chains": 2, "cycles": 2, "epochs": 3, "batch_size": 8},
    "fine_tune": {"training": FEW_EPOCHS | {"max_epochs": 5}},
    "two_stage": {
        stage: FEW_EPOCHS | {"max_epochs": 5} for stage in ("output_layer", "all_layers")
    },
    "freeze": {"training": FEW_EPOCHS | {"max_epochs": 5}},
    "target_only": {"training": FEW_EPOCHS | {"max_epochs": 5}},
    "kernel_ridge": {"folds": 4, "lengths": [1.0], "penalties": [0.1]},
    "gaussian_process": {"restarts": 1},
    "random_forest": {"folds": 4, "trees": 2},
    "gradient_boosting": {"folds": 4, "trees": 5},
    "fresh_networks": {"folds": 4, "hidden": [8], "training": {"warmup_steps": 5}},
    "parts_gp": {"draws": 8, "proposals": 50, "rounds": 2},
}
BRIEF["stacking"] = {
    name: BRIEF[name] for name in ("parts_gp", "kernel_ridge", "gradient_boosting")
}


def each_of(methods, *, in_default_run=None):
    """Return a parametrization over methods, of which some are slow tests.

    These are the methods that run long and, where `in_default_run` names methods, all others.
    """
    quick = set(methods if in_default_run is None else in_default_run) - set(LONG)
    assert quick <= set(methods)
    slow = {name: [] if name in quick else [pytest.mark.slow] for name in methods}
    values = [pytest.param(methods[name], id=name, marks=slow[name]) for name in methods]
    return pytest.mark.parametrize("method", values)
