"""Tables 3.3, 3.4 and A.1 to A.6 of Ott (2022): PBP and SSPBP on the UCI regression sets.

Random splits of 80 to 20 %, 40 passes, up to four networks, with and without biases. The data are
those of the tests, in the folder that `BANDGAP_TEST_DATA` names. The label of the set energy is the
heating load here; the thesis predicts the cooling load, with the heating load as an input.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.errors import InputError
from benchmarks.studies.published_tables import cell
from benchmarks.studies.study import BOUND, Key, Statement, Values, mean_part, study_of
from benchmarks.uci import Split, UciStudy, fit_split, read_split

SETS = (
    "bostonHousing",
    "concrete",
    "energy",
    "kin8nm",
    "naval-propulsion-plant",
    "power-plant",
    "wine-quality-red",
    "yacht",
)
NETWORKS = dict.fromkeys(SETS, ((50,), (10, 10), (10,), (100,)))
TEST_SHARE = 0.2
RMSE = "RMSE"
LOG_DENSITY = "mean log density"
# Tables of the networks (50,) and (10, 10), and of the others, by biases and quantity.
TABLES = {
    ("yes", RMSE): ("3_3", "A_1"),
    ("yes", LOG_DENSITY): ("A_3", "A_2"),
    ("no", RMSE): ("3_4", "A_4"),
    ("no", LOG_DENSITY): ("A_6", "A_5"),
}
METRICS = {RMSE: "rmse", LOG_DENSITY: "loglik"}


def data_folder() -> Path:
    """Return the folder with the UCI sets; raise InputError where none is named."""
    name = os.environ.get("BANDGAP_TEST_DATA", "")
    if not name:
        raise InputError(
            "This study needs the UCI regression sets. Set BANDGAP_TEST_DATA to the folder that "
            "contains uci_regression."
        )
    return Path(name)


def random_split(folder: Path, name: str, *, seed: int) -> Split:
    """Return a random split of 80 to 20 % of a set."""
    stored = read_split(folder, name, 0)
    x = np.vstack([stored.x, stored.x_test])
    y = np.concatenate([stored.y, stored.y_test])
    test, training = np.split(
        np.random.default_rng(seed).permutation(len(y)), [round(TEST_SHARE * len(y))]
    )
    return Split(x[training], y[training], x[test], y[test])


def compute(
    seed: int,
    *,
    networks: Mapping[str, Sequence[Sequence[int]]] = NETWORKS,
    passes: int = 40,
) -> Values:
    """Fit the networks of every set to one split of it."""
    values: Values = {}
    for name, of_set in networks.items():
        split = random_split(data_folder(), name, seed=seed)
        for hidden in map(tuple, of_set):
            for biased in (True, False):
                network = "-".join(map(str, hidden))
                setting = f"{name}, {network}, {'with' if biased else 'without'} biases"
                for method in ("pbp", "sspbp"):
                    config = UciStudy((name,), method, hidden, biased, passes=passes, seed=seed)
                    fit = fit_split(name, 0, split, config)
                    values[Key(setting, method.upper(), RMSE)] = np.array(fit.rmse)
                    values[Key(setting, method.upper(), LOG_DENSITY)] = np.array(fit.log_density)
    return values


def printed(key: Key) -> Mapping[str, Any]:
    """Return the printed number; of the set energy there is none of this label."""
    name, network, biases = key.setting.split(", ")
    if name == "energy":
        return {}
    has_biases = "yes" if biases.startswith("with ") else "no"
    first, second = TABLES[has_biases, key.quantity]
    table = f"pnn_table_{first if network in ('50', '10-10') else second}"
    place = {"set": name, "hidden": network, "biases": has_biases, "metric": METRICS[key.quantity]}
    method = key.method.lower()
    return cell(table, f"{method}_mean", f"{method}_se", **place)


def statements(values: Values) -> list[Statement]:
    """Return whether the methods are the same with biases, and alike without."""
    apart = [
        np.abs(part - values[key._replace(method="SSPBP")]).max()
        for key, part in values.items()
        if key.method == "PBP" and key.setting.endswith("with biases")
    ]
    return [
        Statement(
            "With biases PBP and SSPBP are the same (appendix A.2).",
            [mean_part("largest difference", np.array([max(apart)]), high=1e-6)],
            "by construction: both have the same updates",
        ),
        Statement(
            "Without biases there is no significant difference between them.",
            [
                mean_part(
                    f"SSPBP over PBP, {key.setting}",
                    values[key._replace(method="SSPBP")] / part,
                    low=1.0 - BOUND,
                    high=1.0 + BOUND,
                )
                for key, part in values.items()
                if key.method == "PBP"
                and key.quantity == RMSE
                and key.setting.endswith("without biases")
                and ", 50," not in key.setting
            ],
            f"of errors, read as within {100 * BOUND:.0f} %; with 50 units by construction",
        ),
    ]


STUDY = study_of("pnn-3.3", compute, printed=printed, statements=statements)
