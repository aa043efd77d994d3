"""Electron levels as features of whole jobs: a run with them, its predictions, comparisons, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bandgap.datasets.table import learnable
from bandgap.descriptors.electron_levels import own_gaps_problem
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.runs.comparison import Comparison, Entrant, compare, entrant_of, levels_of
from bandgap.runs.prediction import predict_run
from bandgap.runs.transfer import transfer_run
from bandgap.sources.sets import open_sources
from bandgap.transfer import METHODS

pytest.importorskip("tblite")

QUICK = {"draws": 8, "proposals": 50}
ABLE = [name for name, method in METHODS.items() if method.levels]


def transfer(source_folder, world, out, **more):
    settings = {"method": "feature_gp", "settings": QUICK, "n": 14, "n_test": 6, "device": "cpu", "levels": "GFN1-xTB"}
    return transfer_run(source_folder, world.records, world.gaps_eV, out=out, **(settings | more))


def test_run_with_levels_predicts_new_structures_with_them(source_folder, world, tmp_path):
    plain = transfer(source_folder, world, tmp_path / "plain", levels="none")
    run = transfer(source_folder, world, tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["levels"] == manifest["descriptor"]["levels"] == "GFN1-xTB"
    found, without = (predict_run(folder, world.records[:5]) for folder in (run, plain))
    assert np.isfinite(found.mean_eV).all() and not np.allclose(found.mean_eV, without.mean_eV)
    again = predict_run(run, world.records[:5])
    np.testing.assert_array_equal(found.mean_eV, again.mean_eV)


@pytest.mark.parametrize("method", ABLE)
def test_every_method_that_takes_levels_fits_and_predicts(source_folder, world, tmp_path, method):
    run = transfer(source_folder, world, tmp_path, method=method, settings=QUICK if method == "feature_gp" else {})
    assert np.isfinite(predict_run(run, world.records[:2]).mean_eV).all()


def test_methods_that_take_levels_are_those_that_look_at_the_descriptor():
    assert ABLE == ["feature_gp", "kernel_ridge", "gaussian_process", "random_forest", "gradient_boosting"]


def test_other_methods_and_own_gaps_are_refused_in_words(source_folder, world, tmp_path):
    with pytest.raises(ConfigError, match="fine_tune takes no electron levels. Choose feature_gp, kernel_ridge"):
        transfer(source_folder, world, tmp_path, method="fine_tune", settings={})
    with pytest.raises(InputError, match="The gaps are of GFN1-xTB, and GFN1-xTB levels would nearly be the answer"):
        transfer(source_folder, world, tmp_path, level_of_theory="GFN1-xTB")
    with pytest.raises(ConfigError, match="levels is 'DFT'"):
        transfer(source_folder, world, tmp_path, levels="DFT")
    assert own_gaps_problem("PBE") == own_gaps_problem("") == ""


def test_names_say_how_a_method_takes_part():
    assert entrant_of("feature_gp@2+levels") == Entrant("feature_gp", 2, True)
    assert levels_of(["fine_tune", "feature_gp"]) == "none" and levels_of(["feature_gp+levels"]) == "GFN1-xTB"
    with pytest.raises(InputError, match="fine_tune takes no electron levels"):
        entrant_of("fine_tune+levels")
    for name in ("feature_gp+xtb", "feature_gp@", "feature_gp@0"):
        with pytest.raises(InputError, match=r"Write NAME, or NAME@K"):
            entrant_of(name)


def test_comparison_gives_levels_to_those_that_ask(source_folder, world):
    members = open_sources(source_folder).load()
    tables = [
        learnable(world.records, world.gaps_eV, descriptor=replace(world.descriptor, levels=levels))
        for levels in ("none", "GFN1-xTB")
    ]
    plan = Comparison({"feature_gp": QUICK, "feature_gp+levels": QUICK, "kernel_ridge": {}}, (14,), (0,), 6)
    alone = Comparison({"feature_gp": QUICK, "kernel_ridge": {}}, (14,), (0,), 6)
    wide = {fit.method: fit.figures for fit in compare(members, tables[1], plan, device="cpu")}
    narrow = {fit.method: fit.figures for fit in compare(members, tables[0], alone, device="cpu")}
    for name, figures in narrow.items():
        assert wide[name] == pytest.approx(figures)
    assert wide["feature_gp+levels"]["rmse_eV"] != pytest.approx(wide["feature_gp"]["rmse_eV"])
