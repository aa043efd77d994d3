"""Tables 3.3, 3.4 and A.1 to A.6 of Ott (2022): PBP and SSPBP on the UCI regression sets.

Five random splits of 80 to 20 %, 40 passes, four networks, with and without biases. With biases
both methods are the same computation, so that PBP is run for both. The set energy is left out: the
thesis predicts the cooling load with the heating load as an input. The data are those of the tests,
in the folder that `BANDGAP_TEST_DATA` names.
"""

import os
from pathlib import Path

import numpy as np

from bandgap.foundation.errors import InputError
from benchmarks.studies.published_tables import printed, row_of
from benchmarks.studies.study import Fault, Part, Result, Row, Scale, Statement, Study, mean_row
from benchmarks.uci import Split, UciFit, UciStudy, fit_split, read_split

SETS = (
    "bostonHousing",
    "concrete",
    "kin8nm",
    "naval-propulsion-plant",
    "power-plant",
    "wine-quality-red",
    "yacht",
)
SETS_OF = {"smoke": ("yacht",), "laptop": SETS, "paper": SETS}
NETWORKS = ((50,), (10, 10), (10,), (100,))
NETWORKS_OF = {"smoke": NETWORKS[:1], "laptop": NETWORKS, "paper": NETWORKS}
N_SPLITS = {"smoke": 8, "laptop": 5, "paper": 20}
TEST_SHARE = 0.2
RMSE = "RMSE"
LOG_DENSITY = "mean log density"
DIFFERENCE = "largest difference of mean log densities on a first split"
# Tables of the networks (50,) and (10, 10), and of the others, by biases and quantity.
TABLES = {
    (True, RMSE): ("pnn_table_3_3", "pnn_table_A_1"),
    (True, LOG_DENSITY): ("pnn_table_A_3", "pnn_table_A_2"),
    (False, RMSE): ("pnn_table_3_4", "pnn_table_A_4"),
    (False, LOG_DENSITY): ("pnn_table_A_6", "pnn_table_A_5"),
}
REASON = (
    "the splits of the thesis are not published; five splits differ by chance, and standard "
    "errors of five are rough. Its standard errors divide by n, not n - 1. Some of its trials have "
    "another seed, for numerical issues."
)
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


def random_split(folder: Path, name: str, *, seed: tuple[int, int]) -> Split:
    """Return a random split of 80 to 20 % of a set."""
    stored = read_split(folder, name, 0)
    x = np.vstack([stored.x, stored.x_test])
    y = np.concatenate([stored.y, stored.y_test])
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    test = order[:n_test]
    training = order[n_test:]
    return Split(x[training], y[training], x[test], y[test])


def run(scale: Scale, seed: int) -> Result:
    """Fit all networks on all sets, and return the rows of all eight tables."""
    folder = data_folder()
    rows: list[Row] = []
    largest_difference = 0.0
    for name in SETS_OF[scale]:
        splits = [random_split(folder, name, seed=(seed, i)) for i in range(N_SPLITS[scale])]
        for hidden in NETWORKS_OF[scale]:
            for biased in (True, False):
                fits = _fits(name, splits, hidden, biased, method="pbp", seed=seed)
                if biased:
                    # The same computation: shown on the first split.
                    first_of_sspbp = _fits(
                        name, splits[:1], hidden, biased, method="sspbp", seed=seed
                    )
                    difference = abs(first_of_sspbp[0].log_density - fits[0].log_density)
                    largest_difference = max(largest_difference, difference)
                    fits_of_sspbp = fits
                else:
                    fits_of_sspbp = _fits(name, splits, hidden, biased, method="sspbp", seed=seed)
                for method, of_method in (("PBP", fits), ("SSPBP", fits_of_sspbp)):
                    rows += _rows(name, hidden, biased, method, of_method)
    return Result(
        rows=rows,
        statements=[
            Statement(
                "With biases PBP and SSPBP are the same (appendix A.2).",
                [Part(what=DIFFERENCE, value=largest_difference, high=1e-6)],
            )
        ],
        reasons={"PBP": REASON, "SSPBP": REASON},
        notes=[
            f"{N_SPLITS[scale]} random splits of 80 to 20 %, 40 passes without early stopping.",
            "Numbers are in the units of the labels. Rows of one set share their splits, so that "
            "disagreements come together.",
        ],
    )


def _fits(
    name: str,
    splits: list[Split],
    hidden: tuple[int, ...],
    biased: bool,
    *,
    method: str,
    seed: int,
) -> list[UciFit]:
    config = UciStudy(
        (name,), "sspbp" if method == "sspbp" else "pbp", hidden, biased, splits=1, seed=seed
    )
    return [fit_split(name, number, split, config) for number, split in enumerate(splits)]


def _rows(
    name: str, hidden: tuple[int, ...], biased: bool, method: str, fits: list[UciFit]
) -> list[Row]:
    network = "-".join(map(str, hidden))
    biases = "yes" if biased else "no"
    rows: list[Row] = []
    for quantity, values in (
        (RMSE, [fit.rmse for fit in fits]),
        (LOG_DENSITY, [fit.log_density for fit in fits]),
    ):
        table = TABLES[biased, quantity][0 if hidden in NETWORKS[:2] else 1]
        table_row = row_of(table, set=name, hidden=network, biases=biases, metric=METRICS[quantity])
        column = method.lower()
        rows.append(
            mean_row(
                values,
                table=table,
                setting=f"{name}, {network}, {'with' if biased else 'without'} biases",
                method=method,
                quantity=quantity,
                published=printed(table_row, f"{column}_mean", f"{column}_se"),
            )
        )
    return rows


STUDY = Study(
    name="pnn-3.3",
    title="PBP and SSPBP on UCI sets, with and without biases (tables 3.3, 3.4, A.1 to A.6)",
    source="Ott (2022), section 3.4 and appendix A",
    tables=tuple(dict.fromkeys(table for pair in TABLES.values() for table in pair)),
    run=run,
    fault=Fault(text="numbers 1.2 times too large", factor=1.2),
    left_out="the set energy. With biases SSPBP runs on first splits alone, and has PBP's rows",
)
