r"""A synthetic problem for the output layer: a source network and a target with changed weights.

The source has one hidden layer of random ReLU units. Its output weights are fitted by ridge
regression. The target has the same hidden units, another mean level, and a change of some or all
output weights whose effect has a given variance. Dead units are zero on the target's training rows;
they are active on half of the source rows and of the test rows, and their weights do not change.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.descriptors import DescriptorConfig, Term
from bandgap.foundation.errors import ConfigError
from bandgap.networks.perceptron import NetworkConfig, Params, hidden_features
from bandgap.networks.standardise import Standardiser
from bandgap.networks.training import TrainingConfig
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.sources.statistics import feature_statistics
from bandgap.transfer.shared.method import TargetData

LEVEL_SHIFT = 0.5
BIAS_SD = 0.5
L2 = 1e-6  # The source's penalty per row.
# A source needs a descriptor; this one is not used, because rows are random numbers.
UNUSED_DESCRIPTOR = DescriptorConfig(
    species=("H",),
    k1=Term("atomic_number", 0.0, 10.0, 3, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 3, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)

Change = Literal["sparse", "dense"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LastLayerDesign:
    """Sizes of the networks and data sets, and variances of the change and of the noise.

    Gaps have no unit here. `noise_variance` is that of a gap, `change_variance` that of the effect
    of the change on a gap. `dead` is the number of dead units, `changed` that of changed weights.
    """

    units: int = 512
    dead: int = 0
    inputs: int = 128
    source_rows: int = 40_000
    test_rows: int = 4_000
    change: Change = "sparse"
    changed: int = 25
    change_variance: float = 0.5
    noise_variance: float = 0.3

    def __post_init__(self) -> None:
        most = self.units - self.dead
        if not 1 <= self.changed <= most or min(self.dead, self.test_rows - 2, self.inputs - 2) < 0:
            raise ConfigError(
                f"benchmark last-layer: {self.changed} of {self.units} weights change, "
                f"{self.dead} units are dead, {self.inputs} inputs, {self.test_rows} test rows. "
                "Accepted: 1 to units - dead changes, at least 2 inputs and test rows."
            )
        if self.source_rows <= self.units:
            raise ConfigError(
                f"benchmark last-layer: {self.source_rows} source rows for {self.units} units. "
                "Accepted: more rows."
            )


@dataclass(frozen=True, eq=False)
class LastLayerTask:
    """A source, training rows of the target, and test rows: inputs (m, inputs) and gaps (m,)."""

    source: SourceModel
    data: TargetData
    x_test: NDArray[np.float32]
    y_test: Floats


def make_task(design: LastLayerDesign, n: int, *, seed: int) -> LastLayerTask:
    """Draw a source and n training rows; source, change and test rows do not depend on n."""
    rng = np.random.default_rng([seed, 1])
    hidden = _hidden_layer(design, rng)
    x = _inputs(design, design.source_rows, rng)
    h = _features(hidden, x)
    weights = rng.standard_normal(design.units) / np.sqrt(design.units)
    sigma = float(np.sqrt(design.noise_variance))
    y = h @ weights + sigma * rng.standard_normal(len(x))
    source = _source(design, hidden, x, h, y)
    change = _change(design, h, rng)
    x_test = _inputs(design, design.test_rows, rng)

    def gaps(rows: NDArray[np.float32], noise: np.random.Generator) -> Floats:
        result: Floats = _features(hidden, rows) @ (weights + change) + LEVEL_SHIFT
        return result + sigma * noise.standard_normal(len(rows))

    y_test = gaps(x_test, rng)
    rng_of_size = np.random.default_rng([seed, 2, n])
    x_train = _inputs(design, n, rng_of_size)
    if design.dead:
        x_train[:, 0] = -np.abs(x_train[:, 0])
    return LastLayerTask(source, TargetData(x_train, gaps(x_train, rng_of_size)), x_test, y_test)


def _hidden_layer(design: LastLayerDesign, rng: np.random.Generator) -> Params:
    """Return random units. The first `dead` units use only the first input, others all others."""
    weight = np.zeros((design.units, design.inputs))
    weight[: design.dead, 0] = 1.0 + rng.random(design.dead)
    alive = (design.units - design.dead, design.inputs - 1)
    weight[design.dead :, 1:] = rng.standard_normal(alive) / np.sqrt(alive[1])
    bias = BIAS_SD * rng.standard_normal(design.units)
    bias[: design.dead] = 0.0
    return {"weight.1": torch.from_numpy(weight).float(), "bias.1": torch.from_numpy(bias).float()}


def _source(
    design: LastLayerDesign, hidden: Params, x: NDArray[np.float32], h: Floats, y: Floats
) -> SourceModel:
    mean = h.mean(axis=0)
    level = float(y.mean())
    scatter = (h - mean).T @ (h - mean) + len(y) * L2 * np.eye(design.units)
    weights = np.linalg.solve(scatter, (h - mean).T @ (y - level))
    bias = level - float(mean @ weights)
    variance = float(((y - bias - h @ weights) ** 2).sum()) / (len(y) - design.units)
    output = {"weight.2": torch.from_numpy(weights).float()[None], "bias.2": torch.tensor([bias])}
    params = hidden | output
    return SourceModel(
        params=params,
        network=NetworkConfig(design.inputs, (design.units,)),
        standardiser=Standardiser(np.zeros(design.inputs), np.ones(design.inputs), 0.0, 1.0),
        descriptor=UNUSED_DESCRIPTOR,
        card=SourceCard((), len(y), ("H",)),
        config=SourceConfig((design.units,), TrainingConfig(l2=L2)),
        features=feature_statistics(params, torch.from_numpy(x), residual_variance=variance),
    )


def _change(design: LastLayerDesign, h: Floats, rng: np.random.Generator) -> Floats:
    """Return the change of the output weights (units,), scaled by the features' sds."""
    sd = h.std(axis=0)
    change = np.zeros(design.units)
    alive = np.arange(design.dead, design.units)
    changed_units = (
        rng.choice(alive, design.changed, replace=False) if design.change == "sparse" else alive
    )
    changed_units = changed_units[sd[changed_units] > 0]
    change[changed_units] = rng.standard_normal(changed_units.size) / sd[changed_units]
    result: Floats = change * np.sqrt(design.change_variance) / float((h @ change).std())
    return result


def _inputs(design: LastLayerDesign, n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.standard_normal((n, design.inputs)).astype(np.float32)


def _features(hidden: Params, x: NDArray[np.float32]) -> Floats:
    with torch.no_grad():
        result: Floats = hidden_features(hidden, torch.from_numpy(x)).double().numpy()
    return result
