"""A package of somebody else with a method, built as a wheel and installed by pip into a folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

MODULE = '''
from dataclasses import dataclass, field

import numpy as np

from bandgap.foundation.progress import Update
from bandgap.posterior.protocol import Diagnostics, with_noise
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method


@dataclass(frozen=True, eq=False)
class MeanPosterior:
    """The mean of the labels for every structure; arrays (chain, draw)."""

    mean_eV: np.ndarray
    sigma_eV: np.ndarray
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    kind = "outside_mean"
    n_chains = n_draws = n_members = 1

    def mean_draws_eV(self, features):
        return np.broadcast_to(self.mean_eV[..., None], (1, 1, len(features)))

    def predictive_draws(self, features):
        return with_noise(self.mean_draws_eV(features), self.sigma_eV)

    def summaries(self):
        return {}


@dataclass(frozen=True)
class MeanConfig:
    shift_eV: float = 0.0


def fit(source, data, config, fitting):
    fitting.progress(Update("taking the mean", 1, 1))
    mean_eV = np.array([[data.gaps_eV.mean() + config.shift_eV]])
    return MeanPosterior(mean_eV, np.array([[data.gaps_eV.std()]]))


METHOD = Method(
    name="outside_mean",
    family="without transfer",
    standing="research",
    title="Mean of the labels",
    summary="Predicts the mean of the labels.",
    duration="a second",
    cost=Cost(0.1, 0.1),
    config=MeanConfig,
    fit=fit,
)
'''
ENTRY_POINTS = """
[bandgap.methods]
outside_mean = outside_mean:METHOD

[bandgap.posteriors]
outside_mean = outside_mean:MeanPosterior
"""
INFO = "outside_mean-1.0.dist-info"


def install_outside_package(folder: Path) -> Path:
    """Return the folder into which the package was installed."""
    wheel = folder / "outside_mean-1.0-py3-none-any.whl"
    files = {
        "outside_mean.py": MODULE,
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: outside-mean\nVersion: 1.0\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{INFO}/entry_points.txt": ENTRY_POINTS,
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in (*files, f"{INFO}/RECORD"))
        archive.writestr(f"{INFO}/RECORD", record)
    target = folder / "installed"
    options = ("--no-index", "--no-deps", "--quiet", "--target", str(target))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    return target
