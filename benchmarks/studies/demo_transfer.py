"""Tables and figures of papers whose data are not public or not gaps, on crystals of the demo.

Each method is fitted to random training rows and tested on others, the same for all methods of a
split. Claims compare methods within splits. Splits share one pool of crystals, so that standard
errors are somewhat too small.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bandgap.descriptors.vectors import featurize
from bandgap.evaluation.metrics import coverage, miscalibration_area
from bandgap.structures import StructureRecord
from bandgap.structures.displaced import displaced
from benchmarks.studies.figures import draw_curves
from benchmarks.studies.fits import (
    MSE,
    NLL,
    RMSE,
    WIDTH,
    AnyMethod,
    compared,
    coverage_of,
    data_of,
    figures_of,
    fitted,
    line_of_source,
    split_of,
)
from benchmarks.studies.published_tables import cell, numbers_in
from benchmarks.studies.study import (
    DRAWN,
    Key,
    Part,
    Statement,
    Values,
    below,
    mean_part,
    settings_of,
    study_of,
)

PCP = "BTL-PCP-PE"
COVERAGE = coverage_of(0.95)
AS_PUBLISHED = {"mode": "delta"}
LAST_LAYERS: dict[str, AnyMethod] = {
    "PCP": ("last_layer_pcp", AS_PUBLISHED | {"structure": "source"}),
    "PCP (bandgap's defaults)": ("last_layer_pcp", {}),
    "horseshoe": ("last_layer_horseshoe", AS_PUBLISHED),
    "horseshoe (bandgap's defaults)": ("last_layer_horseshoe", {}),
    "OLS": ("last_layer_ols", {}),
    "fine-tuning with dropout": ("mc_dropout", {"noise": "none"}),
}
PRIORS: dict[str, AnyMethod] = {
    "NPTL": ("nptl", {}),
    "Ensemble + L2SP": ("l2sp", {}),
    "Ensemble": ("ensemble", {}),
    "Ensemble + PTYL": ("ptyl", {}),
    "SGHMC + L2SP": ("sghmc", {}),
    "SGHMC + zero mean": ("sghmc", {"prior": "zero_mean"}),
}
SOUPS: dict[str, AnyMethod] = {
    "NPTL": ("nptl", {}),
    "uniform soup": ("nptl_soup", {}),
    "greedy soup": ("nptl_soup", {"soup": "greedy"}),
    "fine-tune": ("fine_tune", {}),
}
ALL_LAYERS: dict[str, AnyMethod] = {
    "TL-freeze": ("freeze", {}),
    "TL-fine-tune": ("fine_tune", {}),
    "BTL-BNN": ("btl_bnn", {}),
    PCP: ("btl_pcp_pe", {"lam": "corr"}),
    "target only": ("target_only", {}),
}
ABLATION: dict[str, AnyMethod] = {
    f"{name}, gaps of the source's scale": (method, settings | {"gap_scale": "source"})
    for name, (method, settings) in (
        (PCP, ("btl_pcp_pe", {"lam": "corr"})),
        ("TL-fine-tune", ("fine_tune", {})),
    )
}
LINE = "line of the source"
MEAN_OF_C = "posterior mean of c"
SD_OF_C = "posterior sd of c"
TRUE = "gap (eV)"
PREDICTED = "predicted gap (eV)"
LIKE = "molecular crystals, source molecules"
UNLIKE = "inorganic crystals, source without C and H"
SINGLE = "NPTL, single rows"
BLOCKS = "NPTL, 10 blocks"
LEVELS_ANGSTROM = (0.02, 0.05, 0.1, 0.15, 0.2)
STRAINS = (0.005, 0.01, 0.02, 0.03, 0.05)
ROBUST = ("NPTL", "Ensemble + L2SP", "Ensemble")
PROBABILITIES = np.arange(0.1, 1.0, 0.1)
CALIBRATION = "miscalibration area"
MEANS = {"displacement": "mean displacement", "strain": "mean strain"}


def on_last_layers(values: Values) -> list[Statement]:
    """Return the statements of section 3.5."""
    small, large = settings_of(values, RMSE)
    less = partial(below, values, quantity=RMSE, settings=[small])
    gain = [
        values[Key(setting, "OLS", RMSE)] - values[Key(setting, "PCP", RMSE)]
        for setting in (small, large)
    ]
    covered = values[Key(small, "fine-tuning with dropout", COVERAGE)]
    return [
        Statement(
            "With few rows PCP and horseshoe have lower errors than OLS.",
            [*less("PCP", ["OLS"]), *less("horseshoe", ["OLS"])],
        ),
        Statement(
            "The advantage over OLS decreases with n.",
            [mean_part(f"OLS minus PCP, {small} to {large}", gain[1] - gain[0])],
        ),
        Statement("PCP has a lower error than the horseshoe.", less("PCP", ["horseshoe"])),
        Statement(
            "95 % intervals of dropout alone cover less than 75 %.",
            [mean_part(f"covered at {small}", covered, high=0.75)],
        ),
    ]


def lower_than_all(
    values: Values, *, first: str, rivals: Mapping[str, Sequence[str]]
) -> list[Statement]:
    """Return whether a method has lower errors and negative log densities, by text of rivals."""
    return [
        Statement(
            text.format(what), below(values, first, methods, quantity, settings_of(values, RMSE))
        )
        for text, methods in rivals.items()
        for quantity, what in ((RMSE, "errors"), (NLL, "negative log densities"))
    ]


def on_soups(values: Values) -> list[Statement]:
    """Return the statements on soups."""
    less = partial(below, values, quantity=RMSE, settings=settings_of(values, RMSE))
    return [
        Statement(
            "A soup is a little less accurate than NPTL.",
            less("uniform soup", ["NPTL"], low=0.0, high=0.05),
            "a little is read as 0 to 0.05 eV",
        ),
        Statement(
            "The paper's soup, the greedy one, is more accurate than a fine-tuned network.",
            less("greedy soup", ["fine-tune"]),
        ),
    ]


def all_layers(
    seed: int, *, sizes: tuple[int, ...], n_test: int, brief: bool = False, **target: Any
) -> Values:
    """Fit methods of all layers, and the line of the source alone, for growing targets."""
    values = compared(
        seed,
        methods=ALL_LAYERS | ABLATION,
        sizes=sizes,
        n_test=n_test,
        level=0.95,
        brief=brief,
        **target,
    )
    data = data_of(**target)
    for n in sizes:
        train, test = split_of(data, n=n, n_test=n_test, seed=seed)
        errors = line_of_source(data.source, train, test.features) - test.gaps_eV
        values[Key(f"n = {n}", LINE, MSE)] = (errors**2).mean()
    return values


def on_all_layers(values: Values) -> list[Statement]:
    """Return the statements of section 2.5 on errors and intervals."""
    sizes = settings_of(values, RMSE)
    largest = sizes[-1:]
    rivals = [name for name in ALL_LAYERS if name != PCP]
    misses = {
        name: np.abs(values[Key(largest[0], name, COVERAGE)] - 0.95) for name in (PCP, "BTL-BNN")
    }
    return [
        Statement(
            "The error of each method decreases as n increases.",
            [
                mean_part(
                    f"{name}, {small} to {large}",
                    values[Key(large, name, MSE)] - values[Key(small, name, MSE)],
                )
                for name in ALL_LAYERS
                for small, large in itertools.pairwise(sizes)
            ],
        ),
        Statement(
            f"{PCP} has the lowest error in all cases.", below(values, PCP, rivals, MSE, sizes)
        ),
        Statement(
            f"The 95 % intervals of {PCP} cover nearer to 95 % than those of BTL-BNN.",
            [
                mean_part(
                    f"{largest[0]}: difference of the distances", misses[PCP] - misses["BTL-BNN"]
                )
            ],
        ),
        Statement(
            f"The 95 % intervals of {PCP} are narrower than those of BTL-BNN.",
            below(values, PCP, ["BTL-BNN"], WIDTH, largest),
        ),
    ]


def shares(
    seed: int, *, crystals: int | str, sizes: tuple[int, ...], n_test: int, brief: bool = False
) -> Values:
    """Fit BTL-PCP-PE to growing targets; return the posterior of c, and predictions."""
    data = data_of(crystals)
    values: Values = {}
    for n in sizes:
        train, test = split_of(data, n=n, n_test=n_test, seed=seed)
        posterior, _ = fitted(data.source, train, ALL_LAYERS[PCP], seed=seed, brief=brief)
        c = posterior.summaries()["c"]
        for layer in range(c.shape[-1]):
            setting = f"n = {n}, layer {layer + 1}"
            values[Key(setting, PCP, MEAN_OF_C)] = c[..., layer].mean()
            values[Key(setting, PCP, SD_OF_C)] = c[..., layer].std()
        for rows in (train, test):
            setting = f"n = {n}, {'test' if rows is test else 'training'} rows"
            predicted = posterior.mean_draws_eV(rows.features).mean((0, 1))
            values[Key(setting, PCP, MSE)] = ((predicted - rows.gaps_eV) ** 2).mean()
            values[Key(setting, PCP, TRUE, DRAWN)] = rows.gaps_eV
            values[Key(setting, PCP, PREDICTED, DRAWN)] = predicted
    return values


def printed_share(key: Key) -> Mapping[str, Any]:
    """Return the printed mean or standard deviation of c, at the largest n."""
    if key.quantity not in (MEAN_OF_C, SD_OF_C) or not key.setting.startswith("n = 1000,"):
        return {}
    column = "value" if key.quantity == MEAN_OF_C else "sd"
    return cell("section_2_5", column, quantity=f"posterior_mean_c{key.setting[-1]}")


def on_shares(values: Values) -> list[Statement]:
    """Return the statements on c at the largest n."""
    layers = sorted(settings_of(values, MEAN_OF_C)[-3:])
    *hidden, last = (values[Key(layer, PCP, MEAN_OF_C)] for layer in layers)
    return [
        Statement(
            "Most of the prior variance is in the output layer (c3 above 0.8).",
            [mean_part("posterior mean of c3", last, low=0.8, high=np.inf)],
            "printed 0.90 at n = 5,000; 0.33 in the prior",
        ),
        Statement(
            "The share of the output layer is larger than those of the hidden layers.",
            [mean_part(f"c{i} minus c3", part - last) for i, part in enumerate(hidden, start=1)],
            "printed 0.05, 0.05, 0.90",
        ),
    ]


def draw_predictions(figure: Figure, values: Values) -> None:
    """Draw predicted against true gaps of the largest n, training rows left, test rows right."""
    true = [key for key in values if key.quantity == TRUE][-2:]
    for axes, key in zip(figure.subplots(1, 2, sharex=True, sharey=True), true, strict=True):
        axes.plot(values[key], values[key._replace(quantity=PREDICTED)], "o", ms=2, alpha=0.3)
        axes.plot(values[key], values[key], color="#7A8086", lw=1)
        axes.set(title=key.setting, xlabel=TRUE, ylabel=PREDICTED)


def curve_of_alpha(
    seed: int,
    *,
    crystals: int,
    n: int,
    n_test: int,
    n_inorganic: int,
    alphas: Sequence[float] = (0.0, 1.0, 10.0, 100.0, 1e3, 1e4),
    brief: bool = False,
) -> Values:
    """Fit NPTL with each alpha to both targets."""
    values: Values = {}
    for target, name, tested in ((LIKE, crystals, n_test), (UNLIKE, "inorganic", n_inorganic)):
        for alpha in alphas:
            method = {target: ("nptl", {"alphas": [alpha]})}
            of_alpha = compared(
                seed, methods=method, sizes=(n,), n_test=tested, brief=brief, crystals=name
            )
            for key, value in of_alpha.items():
                values[key._replace(setting=f"{key.setting}, alpha = {alpha:g}")] = value
    return values


def on_alpha(values: Values) -> list[Statement]:
    """Return whether the prior's weight harms where source and target differ, and helps else."""
    settings = settings_of(values, RMSE)
    large = max(settings, key=lambda setting: float(numbers_in(setting)["alpha"]))
    (default,) = [setting for setting in settings if setting.endswith("alpha = 1")]

    def change(target: str, low: str, high: str) -> list[Part]:
        difference = values[Key(low, target, RMSE)] - values[Key(high, target, RMSE)]
        return [mean_part(f"{low} minus {high}", difference)]

    return [
        Statement(
            "Where source and target differ, a larger alpha has larger errors.",
            change(UNLIKE, default, large),
            UNLIKE,
        ),
        Statement(
            "Where source and target are alike, a larger alpha has smaller errors.",
            change(LIKE, large, default),
            LIKE,
        ),
    ]


def changed_crystals(
    seed: int, *, crystals: int, n: int, n_test: int, brief: bool = False
) -> Values:
    """Fit methods, and test them at all displacements and strains, and in their mean over levels.

    Labels are those of the unchanged crystals, so that errors contain the change of the gap itself,
    for all methods alike.
    """
    data = data_of(crystals)
    train, test = split_of(data, n=n, n_test=n_test, seed=seed)
    copies = {
        "none": test.records,
        **{f"{sd:g} angstrom": displaced(test.records, sd, seed=seed) for sd in LEVELS_ANGSTROM},
        **{f"strain of {100 * sd:g} %": strained(test.records, sd, seed=seed) for sd in STRAINS},
    }
    features = {
        setting: featurize(records, data.source.descriptor, n_jobs=1).features
        for setting, records in copies.items()
    }
    values: Values = {}
    for name in ROBUST:
        posterior, _ = fitted(data.source, train, PRIORS[name], seed=seed, brief=brief)
        for setting, rows in features.items():
            figures = figures_of(posterior, rows, test.gaps_eV, level=0.9)
            gaps = posterior.predictive_draws(rows).gaps
            covered = [
                coverage(test.gaps_eV, low, upper=high)
                for low, high in map(gaps.interval, map(float, PROBABILITIES))
            ]
            figures[CALIBRATION] = miscalibration_area(PROBABILITIES, covered)
            for quantity in (RMSE, NLL, CALIBRATION):
                values[Key(setting, name, quantity)] = np.array(figures[quantity])
        for quantity in (RMSE, NLL, CALIBRATION):
            means = [values[Key(setting, name, quantity)] for setting in features]
            values[Key(MEANS["displacement"], name, quantity)] = np.mean(means[1:6], 0)
            values[Key(MEANS["strain"], name, quantity)] = np.mean(means[6:], 0)
    return values


def on_changed_crystals(values: Values) -> list[Statement]:
    """Return whether NPTL is the best in the means over levels."""
    better = {
        RMSE: "lower errors",
        NLL: "lower negative log densities",
        CALIBRATION: "a lower calibration error",
    }
    return [
        Statement(
            f"NPTL has {what} than the others under {change}.",
            below(values, "NPTL", ROBUST[1:], quantity, [setting]),
        )
        for change, setting in MEANS.items()
        for quantity, what in better.items()
    ]


def strained(records: Sequence[StructureRecord], sd: float, *, seed: int) -> list[StructureRecord]:
    """Return the records with cell and positions strained at random.

    The six components of the symmetric strain have the standard deviation `sd`. They depend on seed
    and structure.
    """
    copies = []
    for record in records:
        assert record.atoms is not None
        rng = np.random.default_rng([seed, int(record.content, 16)])
        upper = np.triu(rng.normal(0.0, sd, (3, 3)))
        atoms = record.atoms.copy()  # type: ignore[no-untyped-call]
        deformation = np.eye(3) + upper + np.triu(upper, 1).T
        atoms.set_cell(atoms.cell.array @ deformation, scale_atoms=True)
        copies.append(dataclasses.replace(record, atoms=atoms))
    return copies


STUDIES = (
    *(
        study_of(name, all_layers, statements=on_all_layers, draw=draw_curves(MSE, "n"))
        for name in (
            "figure-2.3",
            "figure-2.3-megnet",
            "figure-2.3-organic",
            "figure-2.3-perovskites",
        )
    ),
    *(
        study_of(name, shares, printed=printed_share, statements=on_shares, draw=draw_predictions)
        for name in ("figure-2.4", "figure-2.4-organic", "figure-2.4-perovskites")
    ),
    study_of(
        "table-3.6", partial(compared, methods=LAST_LAYERS, level=0.95), statements=on_last_layers
    ),
    study_of(
        "nptl-1",
        partial(compared, methods=PRIORS),
        statements=partial(
            lower_than_all,
            first="NPTL",
            rivals={
                "NPTL has lower {} than the others of table 1.": [
                    "Ensemble + L2SP",
                    "Ensemble + PTYL",
                    "SGHMC + L2SP",
                ],
                "NPTL has lower {} than SGHMC with a zero-mean prior (table 9).": [
                    "SGHMC + zero mean"
                ],
            },
        ),
    ),
    study_of("nptl-6", partial(compared, methods=SOUPS), statements=on_soups),
    study_of("nptl-figure-2", curve_of_alpha, statements=on_alpha, draw=draw_curves(RMSE, "alpha")),
    study_of(
        "nptl-blocks",
        partial(
            compared,
            methods={
                BLOCKS: ("nptl", {"alphas": [1.0]}),
                SINGLE: ("nptl", {"alphas": [1.0], "blocks": 400}),
            },
        ),
        statements=partial(
            lower_than_all,
            first=BLOCKS,
            rivals={"Weights of single rows have higher {} than blocks.": [SINGLE]},
        ),
    ),
    study_of("nptl-4", changed_crystals, statements=on_changed_crystals),
)
