"""Source models of several labelled sets: one network with an output for each, and ensembles of such networks.

Every output with the shared hidden layers is a source model of its own, on the gap scale of its set. A transfer starts
from one output of every network; the posterior is then the equal-weight mixture over networks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.descriptors import MBTRConfig, n_features
from bandgap.devices import choose_device
from bandgap.errors import InputError
from bandgap.joint_training import JointTrainingConfig, train_jointly
from bandgap.networks import NetworkConfig, Params, init_params
from bandgap.progress import Progress, no_progress
from bandgap.source import SourceCard, SourceConfig, SourceModel
from bandgap.source_statistics import feature_statistics
from bandgap.standardise import FLOOR, Standardiser, varies

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceSet:
    """Labelled molecules of one origin: raw features (n, p), gaps (n,) in eV, and what the card says of them."""

    name: str
    features: NDArray[np.floating[Any]]
    gaps_eV: Floats
    data: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()
    level_of_theory: str = ""
    licence: str = ""


def train_joint_sources(
    sets: Sequence[SourceSet],
    *,
    descriptor: MBTRConfig,
    config: SourceConfig,
    training: JointTrainingConfig,
    members: int = 1,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> list[dict[str, SourceModel]]:
    """Train `members` networks on all sets and return the source model of every set, by name, for each network.

    Networks differ in their start, split and order of rows. Raises InputError when shapes do not fit, when gaps of a
    set are all the same, and when two sets have one name.
    """
    _check(sets, descriptor)
    mean, scale, moving = joint_statistics([s.features for s in sets])
    scales = [Standardiser(mean, scale, float(s.gaps_eV.mean()), float(s.gaps_eV.std())) for s in sets]
    place = choose_device(device)
    rows = []
    for s, standardiser in zip(sets, scales, strict=True):
        x = torch.from_numpy(standardiser.features(s.features)[:, moving]).float()
        rows.append((x.to(place), torch.from_numpy(standardiser.gaps(s.gaps_eV)).float().to(place)))
    network = NetworkConfig(int(moving.sum()), config.hidden, len(sets))  # features that never vary have no weights
    found = []
    for member in range(members):
        generator, start = member_start(network, seed=seed, member=member)
        phase = "training the source network" + (f" {member + 1} of {members}" if members > 1 else "")
        trained = train_jointly(
            {name: value.to(place) for name, value in start.items()},
            rows,
            config=training,
            generator=generator,
            phase=phase,
            progress=progress,
        )
        params = {name: value.cpu() for name, value in trained.params.items()}
        wide = torch.zeros(config.hidden[0], moving.size)
        wide[:, torch.from_numpy(moving)] = params["weight.1"]
        models = {}
        for k, (s, standardiser) in enumerate(zip(sets, scales, strict=True)):
            own, mse = one_output(params, k), trained.validation_mse[k]
            statistics = feature_statistics(own, rows[k][0].cpu(), residual_variance=mse)
            own["weight.1"] = wide
            rmse = math.sqrt(mse) * standardiser.y_sd_eV
            card = SourceCard(s.data, len(s.gaps_eV), s.elements, s.level_of_theory, s.licence, rmse, seed)
            models[s.name] = SourceModel(
                own,
                NetworkConfig(moving.size, config.hidden),
                standardiser,
                descriptor,
                card,
                config,
                trained.history,
                statistics,
            )
        found.append(models)
    return found


def member_start(network: NetworkConfig, *, seed: int, member: int) -> tuple[torch.Generator, Params]:
    """Return the generator of a member (from 0) and the first weights that it draws; the splits of the sets follow."""
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, member]).generate_state(1)[0]))
    return generator, init_params(network, generator=generator)


def one_output(params: Params, output: int) -> Params:
    """Return the network of one output (from 0) of a network with several; hidden layers are shared, not copied."""
    last = max(int(name.rsplit(".", 1)[1]) for name in params)
    own = {name: params[name][output : output + 1].clone() for name in (f"weight.{last}", f"bias.{last}")}
    return {**params, **own}


def joint_statistics(features: Sequence[NDArray[np.floating[Any]]]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return mean and scale (p,) of the features of several sets with equal weight, and which features vary in any.

    The scale has the floor of `standardise.feature_statistics`.
    """
    means = np.array([f.mean(axis=0, dtype=np.float64) for f in features])
    second = np.array([(f.astype(np.float64) ** 2).mean(axis=0) for f in features])
    mean = means.mean(axis=0)
    sd = np.sqrt(np.clip(second.mean(axis=0) - mean**2, 0.0, None))
    moving = np.logical_or.reduce([varies(f) for f in features]) | (means.std(axis=0) > 0)
    floor = FLOOR * np.sqrt(np.mean(sd**2))
    return mean, np.where(moving, np.hypot(sd, floor), 1.0), moving


def _check(sets: Sequence[SourceSet], descriptor: MBTRConfig) -> None:
    names = [s.name for s in sets]
    if not names or len(set(names)) < len(names):
        raise InputError(f"source sets are called {', '.join(names) or 'nothing'}. Give each a name of its own.")
    expected = n_features(descriptor)
    for s in sets:
        if s.features.shape != (len(s.gaps_eV), expected):
            raise InputError(
                f"source set {s.name!r}: features have shape {s.features.shape}; {len(s.gaps_eV)} gaps and the "
                f"descriptor's {expected} features were expected."
            )
        if len(s.gaps_eV) < 3 or not float(np.std(s.gaps_eV)) > 0:
            raise InputError(f"source set {s.name!r} has {len(s.gaps_eV)} gaps. At least 3 that differ are needed.")
