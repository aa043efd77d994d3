"""Source models of several labelled sets: one network with an output for each, and ensembles of such networks.

Every output with the shared hidden layers is a source model of its own, on the gap scale of its set; its extras come
from the rows of its set alone, standardised as in the training. A transfer starts from one output of every network; the
posterior is then the equal-weight mixture over networks.

Networks of one source may see the features in different powers: with a descriptor of square roots, every second one
sees their squares, the plain values. Networks that see the same err alike; measured with `feature_gp` on organic
crystals (OMDB), three networks on roots have errors of 0.542 and 0.474 eV at n = 100 and 500, two on roots and two
on plain values 0.542 and 0.463.

Sets of relaxed molecules may bring copies with displaced atoms. Crystals whose geometries come from elsewhere gain:
on those of the OMDB in geometries of a force field, two networks that have also seen atoms displaced by 0.04 angstrom
have an error of 0.523 eV at n = 100, two that have not 0.533 (30 splits). Of four networks, each should have a copy of
its own: 0.515 eV at n = 100 and 0.464 at n = 500 (8 splits), with one copy for all 0.521 and 0.467.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.descriptors import MBTRConfig, feature_terms, n_features
from bandgap.descriptors.potentials import potential_card_text
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.networks.joint_training import JointlyTrained, JointTrainingConfig, train_jointly
from bandgap.networks.perceptron import NetworkConfig, Params, init_params
from bandgap.networks.standardise import Standardiser, powered, varies
from bandgap.networks.training import RowSplit, split_rows
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.parts import checked, used_features, with_parts
from bandgap.sources.statistics import feature_statistics

TERM_FLOOR = 0.3  # of the root mean square standard deviation of a term's features, in quadrature to every feature's

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceSet:
    """Labelled structures of one origin: raw features (n, p), gaps (n,) in eV, and what the card says of them.

    `displaced` are features (n, p) of copies with atoms displaced by `displacement_angstrom`, one array for every copy
    of the set; network k sees copy k, and from the first again where there are fewer.
    """

    name: str
    features: NDArray[np.floating[Any]]
    gaps_eV: Floats
    data: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()
    level_of_theory: str = ""
    licence: str = ""
    displaced: tuple[NDArray[np.floating[Any]], ...] = ()
    displacement_angstrom: float = 0.0


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What networks see in one power: which features vary, and of every set standardiser and rows."""

    moving: NDArray[np.bool_]
    scales: list[Standardiser]
    rows: list[tuple[Tensor, Tensor]]


def train_joint_sources(
    sets: Sequence[SourceSet],
    *,
    descriptor: MBTRConfig,
    config: SourceConfig,
    training: JointTrainingConfig,
    members: int = 1,
    powers: Sequence[float] | None = None,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> list[dict[str, SourceModel]]:
    """Train `members` networks on all sets and return the source model of every set, by name, for each network.

    Networks differ in their start, split and order of rows, and in the power of the features that they see: those of
    `powers` in turn (default: `default_powers`), and in the displaced copies where a set has several. The errors of the
    card and the statistics of the features are those of the structures as they are.

    Raises InputError when shapes do not fit, when gaps of a set are all the same, and when two sets have one name.
    """
    _check(sets, descriptor)
    powers = tuple(powers or default_powers(descriptor))
    place = choose_device(device)
    found: dict[int, dict[str, SourceModel]] = {}
    for power in dict.fromkeys(
        powers[:members]
    ):  # one at a time: the rows in one power are most of the memory
        seen = _inputs(sets, descriptor, power=power, place=place)
        network = NetworkConfig(
            int(seen.moving.sum()), config.hidden, len(sets)
        )  # what never varies has no weights
        for member in [k for k in range(members) if powers[k % len(powers)] == power]:
            generator, start = member_start(network, seed=seed, member=member)
            trained = train_jointly(
                {name: value.to(place) for name, value in start.items()},
                seen.rows,
                config=training,
                generator=generator,
                alternatives=[
                    _standardised(s.displaced[member % len(s.displaced)], scale, seen.moving, place)
                    if s.displaced
                    else None
                    for s, scale in zip(sets, seen.scales, strict=True)
                ],
                phase="training the source network"
                + (f" {len(found) + 1} of {members}" if members > 1 else ""),
                progress=progress,
            )
            found[member] = _models(
                sets, seen, trained, descriptor=descriptor, config=config, seed=seed
            )
        del seen
    return [found[member] for member in range(members)]


def _models(
    sets: Sequence[SourceSet],
    seen: _Inputs,
    trained: JointlyTrained,
    *,
    descriptor: MBTRConfig,
    config: SourceConfig,
    seed: int,
) -> dict[str, SourceModel]:
    """Return the source model of every output of one network, by the name of its set."""
    params = {name: value.cpu() for name, value in trained.params.items()}
    wide = torch.zeros(config.hidden[0], seen.moving.size)
    wide[:, torch.from_numpy(seen.moving)] = params["weight.1"]
    models = {}
    for k, (s, standardiser) in enumerate(zip(sets, seen.scales, strict=True)):
        own, mse = one_output(params, k), trained.validation_mse[k]
        statistics = feature_statistics(own, seen.rows[k][0].cpu(), residual_variance=mse)
        own["weight.1"] = wide
        card = SourceCard(
            s.data,
            len(s.gaps_eV),
            s.elements,
            s.level_of_theory,
            s.licence,
            math.sqrt(mse) * standardiser.y_sd_eV,
            seed,
            s.displacement_angstrom,
            potential_card_text(descriptor.potential),
        )
        network = NetworkConfig(seen.moving.size, config.hidden)
        models[s.name] = SourceModel(
            own, network, standardiser, descriptor, card, config, trained.history, statistics
        )
    return models


def member_start(
    network: NetworkConfig, *, seed: int, member: int
) -> tuple[torch.Generator, Params]:
    """Return the generator of a member (from 0) and the first weights that it draws; the splits of the sets follow."""
    generator = torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, member]).generate_state(1)[0])
    )
    return generator, init_params(network, generator=generator)


def one_output(params: Params, output: int) -> Params:
    """Return the network of one output (from 0) of a network with several; hidden layers are shared, not copied."""
    last = max(int(name.rsplit(".", 1)[1]) for name in params)
    own = {
        name: params[name][output : output + 1].clone()
        for name in (f"weight.{last}", f"bias.{last}")
    }
    return {**params, **own}


@dataclass(frozen=True)
class Head:
    """One output of a network with several: its set's name and number (from 0), and what gives the split again.

    `sizes` are the numbers of rows of all sets, `share` is that of the rows held out.
    """

    name: str
    output: int
    sizes: tuple[int, ...]
    share: float


def with_head_extras(
    source: SourceModel,
    x: Tensor,
    y: Tensor,
    *,
    head: Head,
    member: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Return the source model of one output of a member (from 0) with the extras that its config asks for.

    Rows x (n, m) and y (n,) are the set's, in the order of the training, from `used_rows`: they are the
    same for all members that see the features in one power. Raises InputError when they are not those of the training.
    """
    split = None
    if len(y) == head.sizes[head.output]:
        split = member_splits(source, head, member=member)[head.output]
    split = checked(split, source, x, y, what=f"the set {head.name!r} of network {member + 1}")
    seed = int(np.random.SeedSequence([source.card.seed, member, head.output]).generate_state(1)[0])
    note = progress_of(f"set {head.name}, network {member + 1}", progress)
    return with_parts(source, x, y, split=split, seed=seed, device=device, progress=note)


def member_splits(source: SourceModel, head: Head, *, member: int) -> list[RowSplit]:
    """Return the split of the rows of every set in the training of a member (from 0)."""
    network = NetworkConfig(
        int(used_features(source.params).sum()), source.network.hidden, len(head.sizes)
    )
    generator, _ = member_start(network, seed=source.card.seed, member=member)
    return [split_rows(n, share=head.share, generator=generator) for n in head.sizes]


def default_powers(descriptor: MBTRConfig) -> tuple[float, ...]:
    """Return the powers of the features that networks see in turn: with square roots, these and their squares."""
    return (1.0, 2.0) if descriptor.roots else (1.0,)


def joint_statistics(
    features: Sequence[NDArray[np.floating[Any]]], terms: Sequence[slice] = (slice(None),)
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return mean and scale (p,) of the features of several sets with equal weight, and which features vary in any.

    The scale is sqrt(sd^2 + (0.3 rms)^2), rms being the root mean square of the standard deviations of those features
    of the same term (`terms`: their places) that vary.
    """
    means = np.array([f.mean(axis=0, dtype=np.float64) for f in features])
    second = np.array([(f.astype(np.float64) ** 2).mean(axis=0) for f in features])
    mean = means.mean(axis=0)
    sd = np.sqrt(np.clip(second.mean(axis=0) - mean**2, 0.0, None))
    moving = np.logical_or.reduce([varies(f) for f in features]) | (means.std(axis=0) > 0)
    scale = np.ones_like(sd)
    for place in terms:
        own, alive = sd[place], moving[place]
        floor = TERM_FLOOR * float(np.sqrt(np.mean(own[alive] ** 2))) if alive.any() else 0.0
        scale[place] = np.where(alive, np.hypot(own, floor), 1.0)
    return mean, scale, moving


def _inputs(
    sets: Sequence[SourceSet], descriptor: MBTRConfig, *, power: float, place: torch.device
) -> _Inputs:
    """Return what networks see; what varies and how it is scaled are told by the structures as they are."""
    mean, scale, moving = joint_statistics(
        [powered(s.features, power) for s in sets], feature_terms(descriptor)
    )
    scales = [
        Standardiser(mean, scale, float(s.gaps_eV.mean()), float(s.gaps_eV.std()), power)
        for s in sets
    ]
    rows = []
    for s, standardiser in zip(sets, scales, strict=True):
        gaps = torch.from_numpy(standardiser.gaps(s.gaps_eV)).float().to(place)
        rows.append((_standardised(s.features, standardiser, moving, place), gaps))
    return _Inputs(moving, scales, rows)


def _standardised(
    x: NDArray[np.floating[Any]],
    standardiser: Standardiser,
    moving: NDArray[np.bool_],
    place: torch.device,
) -> Tensor:
    return torch.from_numpy(standardiser.features(x)[:, moving]).float().to(place)


def _check(sets: Sequence[SourceSet], descriptor: MBTRConfig) -> None:
    names = [s.name for s in sets]
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"source sets are called {', '.join(names) or 'nothing'}. Give each a name of its own."
        )
    expected = n_features(descriptor)
    for s in sets:
        if s.features.shape != (len(s.gaps_eV), expected):
            raise InputError(
                f"source set {s.name!r}: features have shape {s.features.shape}; {len(s.gaps_eV)} gaps and the "
                f"descriptor's {expected} features were expected."
            )
        for copy in s.displaced:
            if not (copy.shape == s.features.shape and np.isfinite(copy).all()):
                raise InputError(
                    f"source set {s.name!r}: features of the displaced copies have shape {copy.shape}; finite ones of "
                    f"shape {s.features.shape} were expected."
                )
        if len(s.gaps_eV) < 3 or not float(np.std(s.gaps_eV)) > 0:
            raise InputError(
                f"source set {s.name!r} has {len(s.gaps_eV)} gaps. At least 3 that differ are needed."
            )
