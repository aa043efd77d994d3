"""A stored run is the fitted posterior, also if its draws share memory."""

import torch

from bandgap.runs.stored import DRAWS, load_run
from bandgap.storage.tensors import load_tensors
from tests.transfers import transfer_labelled

SHORT = {"chains": 2, "warmup": 20, "draws": 20, "keep": 40, "batch_size": 8, "search": 20}


def test_run_with_pruned_weights_stores_them_once_and_loads_as_it_was(
    source_folder, world, tmp_path
):
    """Its self-check compares predictions of the reference structures before and after."""
    settings = {"prune_share": 0.7, "sampler": SHORT}
    out = transfer_labelled(
        source_folder,
        world.records,
        world.gaps_eV,
        out=tmp_path,
        method="btl_pcp_sg",
        settings=settings,
        seed=5,
        device="cpu",
        level_of_theory="made up",
        n=14,
        n_test=6,
    )
    stored = load_tensors(out / DRAWS, {})
    assert {"packed.once.coordinates.1", "packed.moving.theta.2"} <= set(
        stored
    ) and "theta.2" not in stored
    posterior = load_run(out).posterior
    shared = (posterior.upper[0] == posterior.upper[0][:, :1]).all(1)
    assert 0.5 < float(shared.float().mean()) < 0.7  # all but the biases, which are not pruned
    assert torch.equal(posterior.to_arrays()["theta.2"], posterior.upper[0])
