"""Tests of every transfer method from a source of two sets, two networks and all extras."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandgap.descriptors import featurize
from bandgap.runs.stored import load_run
from bandgap.sources.sets import open_sources
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared.method import Fitting
from tests.transfers import transfer_labelled
from tests.unit.transfer.method_settings import BRIEF

HEAD = "other"
SEED = 2
ONE_STEP = {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 4, "max_steps": 1}}
SAMPLED = ("btl_pcp_pe", "btl_pcp_vi", "btl_bnn", "bnn")
MIXED = {name: method for name, method in METHODS.items() if not method.together}
TOGETHER = {name: method for name, method in METHODS.items() if method.together}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def settings_of(name):
    return ONE_STEP if name in SAMPLED else BRIEF.get(name, {})


@dataclass(frozen=True, eq=False)
class Transferred:
    """One run of a method and the rows that it learned from."""

    folder: Path
    manifest: dict[str, Any]
    data: TargetData


@pytest.fixture(scope="module")
def transferred(joint_folder, world, tmp_path_factory):
    """Every method as a whole job, run once."""
    runs = {}
    by_id = {record.id: i for i, record in enumerate(world.records)}
    for name in METHODS:
        out = tmp_path_factory.mktemp(name)
        transfer_labelled(
            joint_folder,
            world.records,
            world.gaps_eV,
            method=name,
            settings=settings_of(name),
            n=16,
            n_test=6,
            seed=SEED,
            head=HEAD,
            out=out,
            device="cpu",
        )
        manifest = json.loads((out / "manifest.json").read_text())
        rows = [by_id[i] for i in manifest["split"]["train"]]
        x = featurize([world.records[i] for i in rows], world.descriptor).features
        runs[name] = Transferred(out, manifest, TargetData(x, world.gaps_eV[rows]))
    return runs


@every_method
def test_method_takes_a_source_of_several_sets_and_networks(method, transferred):
    run = transferred[method.name]
    source = run.manifest["source"]
    assert source["head"] == HEAD and source["card"]["level_of_theory"] == "GW"
    assert source["members"] == 2
    assert np.isfinite(run.manifest["metrics"]["rmse_eV"])
    assert load_run(run.folder).posterior.n_members == (2 if method.name in MIXED else 1)


@pytest.mark.parametrize("method", MIXED.values(), ids=MIXED)
def test_stored_posterior_is_the_equal_weight_mixture_of_the_fits_from_each_network(
    method, transferred, joint_folder, world
):
    run = transferred[method.name]
    x = featurize(world.records, world.descriptor).features
    second = open_sources(joint_folder).load(HEAD)[1][HEAD]
    own_seed = int(np.random.SeedSequence([SEED, 1]).generate_state(1)[0] % 2**31)
    config = method.configure(settings_of(method.name))
    alone = (
        method.fit(second, run.data, config, Fitting(own_seed, device="cpu"))
        .predictive_draws(x)
        .flat_means_eV
    )
    stored = load_run(run.folder).posterior
    first, again = (member.predictive_draws(x).flat_means_eV for member in stored.members)
    np.testing.assert_allclose(again, alone, rtol=0, atol=1e-5)
    mixed = stored.predictive_draws(x).flat_means_eV.mean(0)
    np.testing.assert_allclose(mixed, 0.5 * (first.mean(0) + alone.mean(0)), rtol=0, atol=1e-5)
    assert method.family == "without transfer" or not np.allclose(
        first.mean(0), alone.mean(0), atol=1e-3
    )


@pytest.mark.parametrize("method", TOGETHER.values(), ids=TOGETHER)
def test_stored_posterior_is_the_one_of_all_networks_together(
    method, transferred, joint_folder, world
):
    run = transferred[method.name]
    x = featurize(world.records, world.descriptor).features
    members = open_sources(joint_folder).load()
    config = method.configure(settings_of(method.name))
    fitting = Fitting(SEED, device="cpu", networks=members, head=HEAD)
    again = method.fit(members[0][HEAD], run.data, config, fitting)
    stored = load_run(run.folder).posterior.predictive_draws(x).flat_means_eV
    np.testing.assert_allclose(stored, again.predictive_draws(x).flat_means_eV, rtol=0, atol=1e-5)
