"""Tables 3.1 and 3.2 of Ott (2022): how well PBP and SSPBP describe what a unit passes on.

Table 3.1 compares draws of a rectified product with the message of each method by the squared
maximum mean discrepancy. The printed numbers are of one set of 10,000 draws, so that the standard
deviation over ours is taken as their error. Table 3.2 has the mean probability that the message of
a layer is not exactly zero, on test rows of the Boston set, in networks without biases. It is near
1, where all numbers are alike, so that the probability of a zero is compared.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bandgap.research.assumed_density.moments import layer_moments
from benchmarks.messages import message_distances
from benchmarks.studies.published_tables import cell
from benchmarks.studies.study import Key, Statement, Values, below, mean_part, study_of
from benchmarks.studies.uci_networks import data_folder, random_split
from benchmarks.uci import UciStudy, fit_belief

BOSTON = "bostonHousing"
PERCENT = "draws that are zero (%)"
DISTANCE = "squared maximum mean discrepancy from 10,000 draws of the product"
COLUMNS = {
    "draws": "saturated_percent",
    "other draws": "same_mmd2",
    "PBP": "pbp_mmd2",
    "SSPBP": "sspbp_mmd2",
}
ZERO = "mean probability that the message is zero"


def second_digit(value: float) -> float:
    """Return one unit of the second digit: distances have two, of which the file omits zeros.

    >>> second_digit(0.02), second_digit(5.8e-7)
    (0.001, 1e-08)
    """
    exponent = int(f"{value:e}".partition("e")[2])
    return float(f"1e{exponent - 1}")


def distances(seed: int, *, n_draws: int) -> Values:
    """Recompute table 3.1 with one set of draws."""
    values: Values = {}
    for row in message_distances(draws=n_draws, seed=seed):
        setting = (
            f"X ~ N({row.x_mean:g},{row.x_variance:g}) W ~ N({row.w_mean:g},{row.w_variance:g})"
        )
        for method, value in zip(
            COLUMNS, (row.zeros_percent, row.same, row.pbp, row.sspbp), strict=True
        ):
            quantity = PERCENT if method == "draws" else DISTANCE
            values[Key(setting, method, quantity)] = np.array(value)
    return values


def printed_distance(key: Key) -> Mapping[str, Any]:
    """Return the printed number, which is that of one set of draws."""
    place = zip(
        ("x_mean", "x_var", "w_mean", "w_var"), re.findall(r"-?\d+", key.setting), strict=True
    )
    fields = cell("pnn_table_3_1", COLUMNS[key.method], **dict(place))
    unit = second_digit(fields["printed"]) if key.quantity == DISTANCE else fields["printed_unit"]
    return fields | {"printed_unit": unit, "printed_n": 1}


def on_distances(values: Values) -> list[Statement]:
    """Return the order that the table shows, but for two normal laws of mean 3."""
    settings = dict.fromkeys(key.setting for key in values if "3,1) W ~ N(3" not in key.setting)
    return [
        Statement(
            "Where draws are zero, messages of SSPBP are nearer to them than those of PBP.",
            below(values, "SSPBP", ["PBP"], DISTANCE, settings),
        )
    ]


def shares(seed: int, *, networks: tuple[tuple[int, ...], ...], passes: int = 40) -> Values:
    """Recompute table 3.2 on a random split of the Boston set."""
    values: Values = {}
    split = random_split(data_folder(), BOSTON, seed=seed)
    for hidden in networks:
        config = UciStudy((BOSTON,), "sspbp", hidden, biased=False, passes=passes, seed=seed)
        belief, scaled = fit_belief(split, config, number=0)
        moments = layer_moments(belief.weights, scaled(split.x_test), atoms=True)
        layers = [f"layer {number}" for number in range(2, len(hidden) + 1)] + ["output"]
        for layer, of_layer in zip(layers, moments[1:], strict=True):
            key = Key("-".join(map(str, hidden)), layer, ZERO)
            values[key] = 1.0 - of_layer.share.mean().numpy()
    return values


def printed_share(key: Key) -> Mapping[str, Any]:
    """Return 1 minus the printed number: three digits, of which the file omits zeros at the end."""
    layer = key.method.removeprefix("layer ")
    column = "rho_output" if layer == "output" else f"rho_linear_{layer}"
    fields = cell("pnn_table_3_2", column, f"se_{layer}", hidden=key.setting)
    return fields | {"printed": round(1.0 - fields["printed"], 3), "printed_unit": 0.001}


def on_shares(values: Values) -> list[Statement]:
    """Return what the text and the table say of narrow networks."""
    narrow = [
        (f"zeros, {key.setting}, {key.method}", part)
        for key, part in values.items()
        if "50" not in key.setting
    ]
    return [
        Statement(
            "The probability that a message is not zero tends towards 1, even in narrow networks.",
            [mean_part(name, part, high=0.1) for name, part in narrow],
            "read as at most 10 % zeros with 5 units a layer; table 3.2 has 2.4 to 4.2 %",
        ),
        Statement(
            "In narrow networks the probability that a message is zero is above 0 (table 3.2).",
            [mean_part(name, part, low=0.0005, high=1.0) for name, part in narrow],
            "read as more than 0.05 % zeros: less would be printed as 1.000",
        ),
    ]


STUDIES = (
    study_of("pnn-3.1", distances, printed=printed_distance, statements=on_distances),
    study_of("pnn-3.2", shares, printed=printed_share, statements=on_shares, one_block=True),
)
