"""A stored run is the fitted posterior, also if its draws share memory, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.runs.stored import DRAWS, load_run
from bandgap.storage.arrays import load_arrays, save_arrays
from bandgap.storage.run_archives import opened_run, run_archive
from tests.transfers import transfer_labelled

SHORT = {"chains": 2, "warmup": 20, "draws": 20, "keep": 40, "batch_size": 8, "search": 20}


@pytest.fixture(scope="module")
def pruned(source_folder, world, tmp_path_factory):
    """A run with pruned weights; tests must not change it."""
    return transfer_labelled(
        source_folder,
        world.records,
        world.gaps_eV,
        out=tmp_path_factory.mktemp("pruned"),
        method="btl_pcp_sg",
        settings={"prune_share": 0.7, "sampler": SHORT},
        seed=5,
        device="cpu",
        level_of_theory="made up",
        n=14,
        n_test=6,
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"more": np.zeros(9)}, "tensor more is of no part"),
        ({"upper.0": np.zeros((2, 60, 7, 9))}, r"upper.0 has shape \(2, 60, 7, 9\)"),
    ],
    ids=["unknown", "another shape"],
)
def test_zip_of_a_run_has_the_tensors_of_its_posterior_alone(pruned, tmp_path, changed, message):
    folder = shutil.copytree(pruned, tmp_path / "run")
    save_arrays(load_arrays(folder / DRAWS) | changed, folder / DRAWS)
    file = tmp_path / "run.zip"
    file.write_bytes(run_archive(folder))
    with opened_run(file) as opened, pytest.raises(ArtifactError, match=message):
        load_run(opened)


@pytest.mark.parametrize(
    "method", ["kernel_ridge", "parts_gp", "feature_gp", "last_layer_ridge", "pbe-composition"]
)
def test_prediction_by_arrays_alone_loads_no_torch(world, source_folder, tmp_path, method):
    """Importing torch takes as long as all else that a prediction of one structure does."""
    model: Path | str = method
    if method != "pbe-composition":
        has_source = method in ("feature_gp", "last_layer_ridge")
        model = transfer_labelled(
            source_folder if has_source else None,
            world.records,
            world.gaps_eV,
            out=tmp_path / "run",
            method=method,
            preset=None if has_source else "composition-neighbours",
            n=14,
            n_test=6,
        )
    script = (
        "import sys, ase.build, bandgap\n"
        "predictions = bandgap.load_model(sys.argv[1]).predict(ase.build.molecule('H2O'))\n"
        "print(len(predictions), *({'torch', 'pandas', 'sklearn'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(model)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["1"]
