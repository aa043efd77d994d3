"""Tables 3.1 to 3.5 of Abba (2023): a change of normal means, squared errors of beta2.

sigma = 1 is known, beta1_j ~ U(-3, 3), n1 = ceil(p^(1 + gamma)). In tables 3.1 to 3.3 the first q =
ceil(p^0.8) changes are N(5, 1) and the others 0. In tables 3.4 and 3.5 delta = 3 sqrt(p) U^(1/p) W
/ |W| with W normal and U uniform, so that its mean square is nearly 9; the linear minimax risk (eq.
3.19) is the least that any linear rule can guarantee, and for large p that any rule can. The error
of a data set is the mean over its p coordinates.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.normal_means import (
    Floats,
    horseshoe,
    james_stein,
    lasso_oracle,
    linear_minimax,
    pcp,
    sps_oracle,
    trans_lasso,
)
from benchmarks.studies.published_tables import cell, numbers_in
from benchmarks.studies.study import (
    Key,
    Statement,
    Values,
    below,
    readings,
    settings_of,
    study_of,
)

TARGET_ROWS = (1, 5, 30)
RADIUS = 3.0
LARGE_P = 5000  # where the text speaks of large p
BATCH = 1_000_000  # numbers of a batch of replicates
QUANTITY = "mean squared error of beta2"
AT_SEVEN = "changes N(7, 1)"
AT_RATIO = "tau = q/p"
BEST_THRESHOLD = "best common threshold, by the truth"
PLUG_IN = "sample variance of Z as noise"
FIRST_JS = "James-Stein first, James-Stein"
FIRST_HS = "James-Stein first, horseshoe"
BOUND = "linear minimax bound"
Errors = dict[tuple[str, str], Floats]  # estimates or errors by reading and method


@dataclass(frozen=True, eq=False)
class Means:
    """Sample means and truth of a batch of data sets, (replicate, p)."""

    y1: Floats
    y2: Floats
    beta2: Floats
    n1: int
    n2: int

    @property
    def z(self) -> Floats:
        """The differences of the sample means."""
        return self.y2 - self.y1

    @property
    def variance(self) -> float:
        """The variance of z around the change."""
        return 1.0 / self.n1 + 1.0 / self.n2


def sparse_change(shape: tuple[int, int], rng: np.random.Generator, *, mean: float) -> Floats:
    """Draw the changes of tables 3.1 to 3.3."""
    delta = np.zeros(shape)
    q = math.ceil(shape[1] ** 0.8)
    delta[:, :q] = mean + rng.standard_normal((shape[0], q))
    return delta


def bounded_change(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Draw the changes of tables 3.4 and 3.5."""
    direction = rng.standard_normal(shape)
    length = RADIUS * math.sqrt(shape[1]) * rng.uniform(size=(shape[0], 1)) ** (1.0 / shape[1])
    return np.asarray(length * direction / np.linalg.norm(direction, axis=1, keepdims=True))


def on_sparse(data: Means, *, reading: str, with_first_stage: bool) -> Errors:
    """Return beta2 by reading of the text and method."""
    y1, z, variance = data.y1, data.z, data.variance
    sizes = {"n1": data.n1, "n2": data.n2}
    p = z.shape[1]
    q = math.ceil(p**0.8)
    estimates = {
        (reading, "MLE"): data.y2,
        (reading, "James-Stein"): y1 + james_stein(z, variance),
        (reading, "horseshoe"): y1 + horseshoe(z, variance),
        (reading, "Trans-Lasso"): trans_lasso(y1, data.y2, **sizes),
        (readings(reading, AT_RATIO), "horseshoe"): y1 + horseshoe(z, variance, tau=q / p),
        (readings(reading, BEST_THRESHOLD), "Trans-Lasso"): lasso_oracle(
            y1, data.y2, data.beta2, **sizes
        ),
    }
    if with_first_stage:
        first = james_stein(y1, 1.0 / data.n1)
        change = data.y2 - first
        # The plug-in variance takes the changes for noise, which explains the printed columns.
        sample_variance = change.var(1, ddof=1, keepdims=True)
        sd = np.sqrt(sample_variance)
        plug_in = readings(reading, PLUG_IN)
        estimates |= {
            (reading, "James-Stein first, MLE"): data.y2,
            (reading, FIRST_JS): first + james_stein(change, variance),
            (reading, FIRST_HS): first + horseshoe(change, variance),
            (plug_in, FIRST_JS): first + james_stein(change, sample_variance),
            (plug_in, FIRST_HS): first + horseshoe(change / sd, 1.0) * sd,
        }
    return estimates


def on_bounded(data: Means) -> Errors:
    """Return beta2 by method."""
    y1, z = data.y1, data.z
    sizes = {"n1": data.n1, "n2": data.n2}
    return {
        ("", "SPS, best penalty"): y1 + sps_oracle(z, data.beta2 - y1, **sizes),
        ("", "James-Stein"): y1 + james_stein(z, data.variance),
        ("", "PCP"): y1 + pcp(z, **sizes),
        ("", "James-Stein, target only"): james_stein(data.y2, 1.0 / data.n2),
    }


def errors_of(
    seed: int,
    *,
    gamma: float,
    replicates: Mapping[str, int],
    draw: Callable[[tuple[int, int], np.random.Generator], Floats],
    estimate: Callable[[Means], Errors],
) -> Values:
    """Simulate all sizes of a table in batches."""
    values: Values = {}
    for p, total in ((int(text), total) for text, total in replicates.items()):
        n1 = math.ceil(p ** (1.0 + gamma))
        for n2 in TARGET_ROWS:
            rng = np.random.default_rng([seed, p, n2])
            errors: dict[tuple[str, str], list[Floats]] = {}
            size = max(1, BATCH // p)
            for start in range(0, total, size):
                shape = (min(size, total - start), p)
                beta1 = rng.uniform(-3.0, 3.0, shape)
                beta2 = beta1 + draw(shape, rng)
                y1 = beta1 + rng.standard_normal(shape) / math.sqrt(n1)
                y2 = beta2 + rng.standard_normal(shape) / math.sqrt(n2)
                for name, value in estimate(Means(y1, y2, beta2, n1, n2)).items():
                    errors.setdefault(name, []).append(((value - beta2) ** 2).mean(1))
            for (reading, method), parts in errors.items():
                key = Key(f"p = {p}, n2 = {n2}", method, QUANTITY, reading)
                values[key] = np.concatenate(parts)
    return values


def sparse(
    seed: int, *, gamma: float, replicates: Mapping[str, int], with_first_stage: bool
) -> Values:
    """Simulate a table of sparse changes; the tables with a first stage have a second reading."""
    values: Values = {}
    for reading, mean in ({"": 5.0} | ({AT_SEVEN: 7.0} if with_first_stage else {})).items():
        values |= errors_of(
            seed,
            gamma=gamma,
            replicates=replicates,
            draw=partial(sparse_change, mean=mean),
            estimate=partial(on_sparse, reading=reading, with_first_stage=with_first_stage),
        )
    return values


def bounded(seed: int, *, gamma: float, replicates: Mapping[str, int]) -> Values:
    """Simulate a table of bounded changes, with the bound of linear rules."""
    values = errors_of(
        seed, gamma=gamma, replicates=replicates, draw=bounded_change, estimate=on_bounded
    )
    for p in map(int, replicates):
        for n2 in TARGET_ROWS:
            variance = 1.0 / math.ceil(p ** (1.0 + gamma)) + 1.0 / n2
            bound = linear_minimax(radius_squared=RADIUS**2, variance=variance)
            values[Key(f"p = {p}, n2 = {n2}", BOUND, QUANTITY)] = np.array([bound])
    return values


COLUMNS = {
    1: {
        "MLE": "mle",
        "James-Stein": "james_stein",
        "horseshoe": "horseshoe",
        "Trans-Lasso": "trans_lasso",
    },
    2: {
        "MLE": "mle1_mle",
        "James-Stein": "mle1_js",
        "horseshoe": "mle1_hs",
        "James-Stein first, MLE": "js1_mle",
        FIRST_JS: "js1_js",
        FIRST_HS: "js1_hs",
        "Trans-Lasso": "trans_lasso",
    },
    4: {
        "SPS, best penalty": "sps",
        "James-Stein": "js",
        "PCP": "pcp",
        "James-Stein, target only": "js_target_only",
    },
}
COLUMNS[3] = COLUMNS[2]
COLUMNS[5] = COLUMNS[4]


def printed(number: int, key: Key) -> Mapping[str, Any]:
    """Return the printed error of table 3.`number`.

    The printed errors of tables 3.2 and 3.3, 0.4 to 1, are larger than the spread of a column.
    """
    column = COLUMNS[number].get(key.method)
    error = "" if number in (2, 3) else "max_se"
    return cell(f"table_3_{number}", column, error, **numbers_in(key.setting)) if column else {}


def on_horseshoe(values: Values) -> list[Statement]:
    """Return what section 3.4.3 says of the methods' order."""
    less = partial(below, values, quantity=QUANTITY, settings=settings_of(values, QUANTITY))
    stages = (("James-Stein", FIRST_JS), ("horseshoe", FIRST_HS))
    parts = [
        part
        for unbiased, biased in stages
        if any(key.method == biased for key in values)
        for part in less(unbiased, [biased])
    ]
    return [
        Statement(
            "The horseshoe has lower errors than the mean of the target, James-Stein and "
            "Trans-Lasso.",
            less("horseshoe", ("MLE", "James-Stein", "Trans-Lasso")),
        ),
        *([Statement("An unbiased first stage has lower errors.", parts)] if parts else []),
    ]


def on_bounded_change(values: Values, *, target_only_wins: bool) -> list[Statement]:
    """Return what section 3.4.3 says of table 3.4, or of 3.5, where the target alone wins."""
    less = partial(below, values, quantity=QUANTITY)
    every = settings_of(values, QUANTITY)
    large = [setting for setting in every if int(numbers_in(setting)["p"]) >= LARGE_P]
    alone = "James-Stein, target only"
    return [
        Statement(
            "PCP has lower errors than James-Stein with the source.",
            less("PCP", ["James-Stein"], settings=every),
        ),
        Statement(
            "For large p James-Stein from the target alone has lower errors than PCP.",
            less(alone, ["PCP"], settings=large),
            "p = 5,000 and 10,000",
        )
        if target_only_wins
        else Statement(
            "PCP has lower errors than James-Stein from the target alone.",
            less("PCP", [alone], settings=every),
        ),
    ]


STUDIES = (
    *(
        study_of(
            f"table-3.{number}",
            partial(sparse, gamma=gamma, with_first_stage=number > 1),
            printed=partial(printed, number),
            statements=on_horseshoe,
        )
        for number, gamma in ((1, 0.2), (2, 0.0), (3, -0.2))
    ),
    *(
        study_of(
            f"table-3.{number}",
            partial(bounded, gamma=gamma),
            printed=partial(printed, number),
            statements=partial(on_bounded_change, target_only_wins=number == 5),
        )
        for number, gamma in ((4, 0.2), (5, 0.0))
    ),
)
