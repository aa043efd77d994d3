"""Source models of several labelled sets: networks with an output for each set.

Every output with the shared hidden layers is a source model of its own, with the gap scale of its
set. Its extras use the rows of its set only, standardised as in the training. A transfer starts
from one output of every network; the posterior is the equal-weight mixture over networks.

The networks of one source may see the features in different powers: with a descriptor of square
roots, every second network sees the plain values. Networks that see the same features make similar
errors. Sets of relaxed molecules may have copies with displaced atoms, which improve predictions of
crystals whose geometries come from another method. Measurements of both are in
docs/explanation/which-source-and-method.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.descriptors import DescriptorConfig, feature_terms
from bandgap.descriptors.potentials import potential_card_text
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.networks.joint_training import JointlyTrained, JointTrainingConfig, train_jointly
from bandgap.networks.perceptron import NetworkConfig, Params, init_params
from bandgap.networks.standardise import Standardiser, powered, varies
from bandgap.networks.training import RowSplit, split_rows
from bandgap.sources.extras import checked_split, used_features, with_computed_extras
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.statistics import feature_statistics

# Added in quadrature to the standard deviation of every feature: this share of the root mean square
# standard deviation of the features of the same term.
TERM_FLOOR = 0.3

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceSet:
    """Labelled structures of one origin.

    Parameters
    ----------
    name
        Name of the set and of its output.
    features, gaps_eV
        Raw features (n, p) and gaps (n,).
    data, elements, level_of_theory, licence
        Entries of the card.
    displaced
        Features (n, p) of copies with displaced atoms, one array for every copy of the set. Network
        k sees copy k modulo the number of copies.
    displacement_angstrom
        Standard deviation of the displacements.
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
    """Rows of all sets in one power of the features."""

    # Which features vary in any set (p,).
    varying: NDArray[np.bool_]
    scales: list[Standardiser]
    # Standardised features and gaps of each set.
    rows: list[tuple[Tensor, Tensor]]


def train_joint_sources(
    sets: Sequence[SourceSet],
    *,
    descriptor: DescriptorConfig,
    config: SourceConfig,
    training: JointTrainingConfig,
    members: int = 1,
    powers: Sequence[float] | None = None,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> list[dict[str, SourceModel]]:
    """Train networks on all sets; return the source models of each network by the name of the set.

    Networks differ in their start, in the split and order of rows, and in the power of the
    features. Where a set has several displaced copies, they also differ in the copy. The errors in
    the card and the statistics of the features are those of the undisplaced structures.

    Parameters
    ----------
    sets
        The labelled sets.
    descriptor, config, training, seed
        Descriptor of the features, settings and seed of the training.
    members
        Number of networks.
    powers
        Powers of the features that the networks see in turn (default: `default_powers`).

    Raises
    ------
    InputError
        If there is no set, or if a set has fewer than three gaps or only equal ones.
    """
    _check(sets)
    powers = tuple(powers or default_powers(descriptor))
    torch_device = choose_device(device)
    models: dict[int, dict[str, SourceModel]] = {}
    # One power at a time, because the rows in one power are most of the memory.
    for power in dict.fromkeys(powers[:members]):
        inputs = _inputs(sets, descriptor, power=power, device=torch_device)
        # Features that never vary have no weights.
        network = NetworkConfig(int(inputs.varying.sum()), config.hidden, len(sets))
        for member in [k for k in range(members) if powers[k % len(powers)] == power]:
            generator, start = member_start(network, seed=seed, member=member)
            number = f" {len(models) + 1} of {members}" if members > 1 else ""
            trained = train_jointly(
                {name: value.to(torch_device) for name, value in start.items()},
                inputs.rows,
                config=training,
                generator=generator,
                alternatives=[
                    _displaced_rows(s, scale, inputs.varying, member=member, device=torch_device)
                    for s, scale in zip(sets, inputs.scales, strict=True)
                ],
                phase="training the source network" + number,
                progress=progress,
            )
            models[member] = _models(
                sets, inputs, trained, descriptor=descriptor, config=config, seed=seed
            )
        del inputs
    return [models[member] for member in range(members)]


def _displaced_rows(
    source_set: SourceSet,
    standardiser: Standardiser,
    varying: NDArray[np.bool_],
    *,
    member: int,
    device: torch.device,
) -> Tensor | None:
    """Return the standardised features of the displaced copy that a network sees, or None."""
    if not source_set.displaced:
        return None
    copy = source_set.displaced[member % len(source_set.displaced)]
    return _standardised(copy, standardiser, varying, device)


def _models(
    sets: Sequence[SourceSet],
    inputs: _Inputs,
    trained: JointlyTrained,
    *,
    descriptor: DescriptorConfig,
    config: SourceConfig,
    seed: int,
) -> dict[str, SourceModel]:
    """Return the source model of every output of one network, by the name of its set."""
    params = {name: value.cpu() for name, value in trained.params.items()}
    wide = torch.zeros(config.hidden[0], inputs.varying.size)
    wide[:, torch.from_numpy(inputs.varying)] = params["weight.1"]
    models = {}
    for k, (s, standardiser) in enumerate(zip(sets, inputs.scales, strict=True)):
        mse = trained.validation_mse[k]
        output_params = one_output(params, k)
        x = inputs.rows[k][0].cpu()
        statistics = feature_statistics(output_params, x, residual_variance=mse)
        output_params["weight.1"] = wide
        card = SourceCard(
            s.data,
            len(s.gaps_eV),
            s.elements,
            s.level_of_theory,
            s.licence,
            math.sqrt(mse) * standardiser.y_sd_eV,
            seed,
            s.displacement_angstrom,
            potential_card_text(descriptor.potential, descriptor.second_potential),
            n_held_out=len(trained.splits[k].held_out),
            held_out_rmse_eV=math.sqrt(mse) * standardiser.y_sd_eV,  # no row chose an epoch
        )
        network = NetworkConfig(inputs.varying.size, config.hidden)
        models[s.name] = SourceModel(
            output_params,
            network,
            standardiser,
            descriptor,
            card,
            config,
            trained.history,
            statistics,
        )
    return models


def member_start(
    network: NetworkConfig, *, seed: int, member: int
) -> tuple[torch.Generator, Params]:
    """Return the generator of a network (from 0) and its first weights.

    The generator then draws the splits of the sets.
    """
    generator = torch.Generator().manual_seed(
        int(np.random.SeedSequence([seed, member]).generate_state(1)[0])
    )
    return generator, init_params(network, generator=generator)


def one_output(params: Params, output: int) -> Params:
    """Return the network of one output (from 0); the hidden layers are shared, not copied."""
    last = max(int(name.rsplit(".", 1)[1]) for name in params)
    output_layer = {
        name: params[name][output : output + 1].clone()
        for name in (f"weight.{last}", f"bias.{last}")
    }
    return {**params, **output_layer}


@dataclass(frozen=True)
class Head:
    """One output of a network with several, and what reproduces the split of its rows.

    Parameters
    ----------
    name
        Name of its set.
    output
        Index of the output.
    sizes
        Numbers of rows of all sets.
    share
        Share of the rows that is held out.
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
    """Return the source model of one output with the extras that its config asks for.

    Parameters
    ----------
    source
        Source model of the output.
    x, y
        Rows (n, m) and gaps (n,) of its set from `used_rows`, in the order of the training. They
        are the same for all networks that see the features in the same power.
    head
        The output.
    member
        Index of the network.

    Raises
    ------
    InputError
        If the rows are not those of the training.
    """
    split = None
    if len(y) == head.sizes[head.output]:
        split = member_splits(source, head, member=member)[head.output]
    label = f"the set {head.name!r} of network {member + 1}"
    split = checked_split(split, source, x, y, label=label)
    seed = int(np.random.SeedSequence([source.card.seed, member, head.output]).generate_state(1)[0])
    return with_computed_extras(
        source,
        x,
        y,
        split=split,
        seed=seed,
        device=device,
        progress=progress_of(f"set {head.name}, network {member + 1}", progress),
    )


def member_splits(source: SourceModel, head: Head, *, member: int) -> list[RowSplit]:
    """Return the split of the rows of every set in the training of a network (from 0)."""
    network = NetworkConfig(
        int(used_features(source.params).sum()), source.network.hidden, len(head.sizes)
    )
    generator, _ = member_start(network, seed=source.card.seed, member=member)
    return [split_rows(n, share=head.share, generator=generator) for n in head.sizes]


def default_powers(descriptor: DescriptorConfig) -> tuple[float, ...]:
    """Return the powers of the features that networks see in turn: 1, and 2 for square roots."""
    return (1.0, 2.0) if descriptor.roots else (1.0,)


def joint_statistics(
    features: Sequence[NDArray[np.floating[Any]]], terms: Sequence[slice] = (slice(None),)
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return mean and scale (p,) of the features of several sets, and which vary in any set.

    All sets have equal weight. The scale is sqrt(sd^2 + (0.3 rms)^2), where rms is the root mean
    square of the standard deviations of the varying features of the same term.

    Parameters
    ----------
    features
        Features (n, p) of every set.
    terms
        Slices of the terms.
    """
    means = np.array([f.mean(axis=0, dtype=np.float64) for f in features])
    second = np.array([(f.astype(np.float64) ** 2).mean(axis=0) for f in features])
    mean = means.mean(axis=0)
    sd = np.sqrt(np.clip(second.mean(axis=0) - mean**2, 0.0, None))
    varying = np.logical_or.reduce([varies(f) for f in features]) | (means.std(axis=0) > 0)
    scale = np.ones_like(sd)
    for term in terms:
        sd_of_term = sd[term]
        is_varying = varying[term]
        floor = 0.0
        if is_varying.any():
            floor = TERM_FLOOR * float(np.sqrt(np.mean(sd_of_term[is_varying] ** 2)))
        scale[term] = np.where(is_varying, np.hypot(sd_of_term, floor), 1.0)
    return mean, scale, varying


def _inputs(
    sets: Sequence[SourceSet], descriptor: DescriptorConfig, *, power: float, device: torch.device
) -> _Inputs:
    """Return the standardised rows; the scales are those of the undisplaced structures."""
    mean, scale, varying = joint_statistics(
        [powered(s.features, power) for s in sets], feature_terms(descriptor)
    )
    scales = [
        Standardiser(mean, scale, float(s.gaps_eV.mean()), float(s.gaps_eV.std()), power)
        for s in sets
    ]
    rows = []
    for s, standardiser in zip(sets, scales, strict=True):
        gaps = torch.from_numpy(standardiser.gaps(s.gaps_eV)).float().to(device)
        rows.append((_standardised(s.features, standardiser, varying, device), gaps))
    return _Inputs(varying, scales, rows)


def _standardised(
    x: NDArray[np.floating[Any]],
    standardiser: Standardiser,
    varying: NDArray[np.bool_],
    device: torch.device,
) -> Tensor:
    return torch.from_numpy(standardiser.features(x)[:, varying]).float().to(device)


def _check(sets: Sequence[SourceSet]) -> None:
    if not sets:
        raise InputError("There is no source set. Give at least one.")
    for s in sets:
        if len(s.gaps_eV) < 3 or not float(np.std(s.gaps_eV)) > 0:
            raise InputError(
                f"source set {s.name!r} has {len(s.gaps_eV)} gaps. "
                "At least 3 that differ are needed."
            )
