"""Comparison of methods: the same rows for all, figures of a run, reuse of stored fits."""

import dataclasses
import json

import numpy as np
import pytest

from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import learnable
from bandgap.foundation.errors import InputError
from bandgap.predictions.store import load_predictions
from bandgap.runs.compared_fits import (
    ComparedFit,
    append_fit,
    read_fits,
    recomputed_sentence,
    reusable_fits,
    summary,
)
from bandgap.runs.comparison import (
    CONSTANT,
    SOURCE_ALONE,
    Comparison,
    compare,
    compared_of,
    facts_by_method,
)
from bandgap.sources.sets import open_sources
from tests.transfers import transfer_labelled

FINE = {"training": {"max_epochs": 10, "batch_size": 8}}
PLAN = Comparison(
    {"fine_tune": FINE, "feature_gp": {"draws": 8, "proposals": 50}}, (10, 14), (0, 1), 6
)


@pytest.fixture(scope="module")
def table(world):
    return learnable(world.records, world.gaps_eV, descriptor=world.descriptor)


@pytest.fixture(scope="module")
def members(source_folder):
    return open_sources(source_folder).load()


@pytest.fixture(scope="module")
def fits(members, table):
    return list(compare(compared_of(members, table), PLAN, device="cpu"))


def test_every_method_is_fitted_on_every_split(fits):
    names = [CONSTANT, SOURCE_ALONE, "fine_tune", "feature_gp"]
    assert [(f.n, f.seed, f.method) for f in fits] == [
        (n, s, m) for n in (10, 14) for s in (0, 1) for m in names
    ]
    for fit in fits:
        assert np.isfinite(fit.figures["rmse_eV"])
        assert ("coverage_95" in fit.figures) == (fit.method in PLAN.methods)


def test_figures_are_those_of_a_run_of_the_same_split(fits, source_folder, world, tmp_path):
    settings = {
        "method": "fine_tune",
        "settings": FINE,
        "seed": 1,
        "n": 14,
        "n_test": 6,
        "device": "cpu",
    }
    out = transfer_labelled(source_folder, world.records, world.gaps_eV, out=tmp_path, **settings)
    stored = load_predictions(out / "quantiles.safetensors")
    gaps = dict(zip([r.id for r in world.records], world.gaps_eV, strict=True))
    error = stored.mean_eV - np.array([gaps[i] for i in stored.ids])
    (fit,) = [f for f in fits if (f.method, f.n, f.seed) == ("fine_tune", 14, 1)]
    assert fit.figures["rmse_eV"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)


def test_constant_is_the_mean_of_the_training_gaps(fits, table):
    split = permuted_split(table.ids, n_test=6, n_train=10, seed=0)
    expected = np.sqrt(
        np.mean((table.gaps_eV[split.test] - table.gaps_eV[split.train].mean()) ** 2)
    )
    assert fits[0].figures["rmse_eV"] == pytest.approx(expected)


def test_what_is_done_is_not_computed_again(fits, members, table, tmp_path):
    path = tmp_path / "fits.jsonl"
    for fit in fits[:10]:
        append_fit(path, fit)
    done = read_fits(path)
    assert [dataclasses.asdict(f) for f in done] == [dataclasses.asdict(f) for f in fits[:10]]
    later_fits = list(compare(compared_of(members, table), PLAN, device="cpu", done=done))
    assert [(f.method, f.n, f.seed) for f in later_fits] == [
        (f.method, f.n, f.seed) for f in fits[10:]
    ]


def test_damaged_line_is_refused_by_number(tmp_path):
    path = tmp_path / "fits.jsonl"
    append_fit(path, ComparedFit("a", 1, 0, {}, 0.0, made_of={}))
    path.write_text(path.read_text() + '{"method": 3}\n')
    with pytest.raises(InputError, match=r"fits.jsonl, line 2: no compared fit .* Remove the line"):
        read_fits(path)


def test_summary_is_mean_and_standard_error_over_seeds():
    fits = [
        ComparedFit("a", 10, s, {"rmse_eV": v}, 0.0, made_of={})
        for s, v in enumerate((1.0, 2.0, 3.0))
    ]
    fits += [ComparedFit("b", 10, 0, {}, 0.0, made_of={})]
    result = summary(fits, "rmse_eV")
    assert result["a"][10] == (2.0, pytest.approx(1.0 / np.sqrt(3)))
    assert np.isnan(result["b"][10][0])


def test_method_at_one_network_takes_the_first_alone(members, table):
    twice = [
        members[0],
        {name: dataclasses.replace(m, params=halved(m.params)) for name, m in members[0].items()},
    ]
    plan = Comparison({"fine_tune@1": FINE, "fine_tune": FINE}, (14,), (0,), 6)
    alone = Comparison({"fine_tune": FINE}, (14,), (0,), 6)
    result = {
        f.method: f.figures["rmse_eV"]
        for f in compare(compared_of(twice, table), plan, device="cpu")
    }
    (expected,) = [
        f
        for f in compare(compared_of(members, table), alone, device="cpu")
        if f.method == "fine_tune"
    ]
    assert result["fine_tune@1"] == pytest.approx(expected.figures["rmse_eV"], rel=1e-6)
    assert result["fine_tune"] != pytest.approx(result["fine_tune@1"], rel=1e-3)


def halved(params):
    return {name: 0.5 * value for name, value in params.items()}


def test_method_that_cannot_be_fitted_says_why_and_the_others_go_on(members, table, tmp_path):
    """A learning rate at which training diverges."""
    wild = {"members": 2, "fold_members": 2, "training": {"learning_rate": 1e30}}
    plan = Comparison({"ensemble": wild, "last_layer_ridge": {}}, (14,), (0, 1), 6)
    path = tmp_path / "fits.jsonl"
    result = list(compare(compared_of(members, table), plan, device="cpu"))
    for fit in result:
        append_fit(path, fit)
    failed = [fit for fit in result if fit.failed]
    assert [(fit.method, fit.seed, dict(fit.figures)) for fit in failed] == [
        ("ensemble", s, {}) for s in (0, 1)
    ]
    assert all("diverge" in fit.failed for fit in failed)
    assert np.isfinite(summary(result, "rmse_eV")["last_layer_ridge"][14][0])
    assert np.isnan(summary(result, "rmse_eV")["ensemble"][14][0])
    again = compare(compared_of(members, table), plan, device="cpu", done=read_fits(path))
    assert [(fit.method, fit.seed) for fit in again] == [("ensemble", 0), ("ensemble", 1)]


def test_mean_is_over_the_splits_with_a_fit():
    fits = [
        ComparedFit("a", 10, 0, {"rmse_eV": 1.0}, 0.0, made_of={}),
        ComparedFit("a", 10, 1, {}, 0.0, failed="diverged", made_of={}),
    ]
    assert summary(fits, "rmse_eV")["a"][10][0] == 1.0


QUICK = Comparison({"last_layer_ridge": {}}, (10,), (0,), 6)


def relabelled(table):
    return dataclasses.replace(table, gaps_eV=table.gaps_eV[::-1].copy())


def halved_source(members):
    return [
        {name: dataclasses.replace(m, params=halved(m.params)) for name, m in members[0].items()}
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda members, table: (members, relabelled(table), QUICK), "other data"),
        (lambda members, table: (halved_source(members), table, QUICK), "another source"),
        (
            lambda members, table: (members, table, dataclasses.replace(QUICK, n_test=7)),
            "another number of test",
        ),
        (
            lambda members, table: (
                members,
                table,
                Comparison({"last_layer_ridge": {"draws": 300}}, (10,), (0,), 6),
            ),
            "other settings",
        ),
    ],
    ids=["labels", "source", "n_test", "settings"],
)
def test_kept_fit_of_something_else_is_computed_again(change, words, members, table):
    first = list(compare(compared_of(members, table), QUICK, device="cpu"))
    other_members, rows, plan = change(members, table)
    again = list(compare(compared_of(other_members, rows), plan, device="cpu", done=first))
    new = {fit.method: fit for fit in again}
    (old,) = [fit for fit in first if fit.method == "last_layer_ridge"]
    assert "last_layer_ridge" in new
    fresh = list(compare(compared_of(other_members, rows), plan, device="cpu"))
    assert [fit.figures for fit in fresh if fit.method == "last_layer_ridge"] == [
        new["last_layer_ridge"].figures
    ]
    facts = facts_by_method(compared_of(other_members, rows), plan)
    assert words in recomputed_sentence([old], facts, where="C")
    assert recomputed_sentence([old, *again], facts, where="C") == ""
    assert old not in reusable_fits([*first, *again], facts)


def test_stored_fit_of_another_version_is_recomputed(members, table):
    first = [
        dataclasses.replace(fit, made_of={**fit.made_of, "version": "0.0.1"})
        for fit in compare(compared_of(members, table), QUICK, device="cpu")
    ]
    again = list(compare(compared_of(members, table), QUICK, device="cpu", done=first))
    assert [fit.method for fit in again] == [fit.method for fit in first]
    facts = facts_by_method(compared_of(members, table), QUICK)
    assert recomputed_sentence(first, facts, where="C").endswith(
        "They were made with another version of bandgap."
    )


def test_read_fits_line_without_inputs_is_refused(tmp_path):
    path = tmp_path / "fits.jsonl"
    append_fit(path, ComparedFit("a", 1, 0, {}, 0.0, made_of={"n_test": 6}))
    line = json.loads(path.read_text())
    del line["made_of"]
    path.write_text(json.dumps(line))
    with pytest.raises(InputError, match=r"line 1: no compared fit .*made_of"):
        read_fits(path)


def test_stored_fit_of_another_method_is_reusable_for_the_same_data(members, table):
    first = list(compare(compared_of(members, table), QUICK, device="cpu"))
    plan = Comparison({"last_layer_ols": {}}, (10,), (0,), 6)
    same = reusable_fits(first, facts_by_method(compared_of(members, table), plan))
    assert "last_layer_ridge" in {fit.method for fit in same}
    assert (
        reusable_fits(first, facts_by_method(compared_of(members, relabelled(table)), plan)) == []
    )
