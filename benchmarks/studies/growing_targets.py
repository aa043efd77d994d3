"""Figures 2.3 and 2.4 of Abba (2023), as analogues on the demo crystals.

- `figure-2.3`: error against the number of training rows, for methods of all layers, with coverage
  and width of the 95 % intervals, which section 2.5 has in its text.
- `figure-2.4`: predicted against true gaps of BTL-PCP-PE, for training and test rows, with the
  posterior of c, each layer's share of the prior variance, for growing targets.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bandgap.datasets.table import Table
from benchmarks.studies.demo_transfer import (
    CRYSTALS,
    MSE,
    SECONDS,
    SPLITS,
    TEST_ROWS,
    WIDTH,
    Compared,
    Fit,
    Fitted,
    compare,
    coverage_of,
    demo_notes,
    demo_table,
    fit_to_split,
)
from benchmarks.studies.figures import COLOURS
from benchmarks.studies.published_tables import printed, row_of
from benchmarks.studies.study import (
    METHODS_SWAPPED,
    Fault,
    Part,
    Result,
    Row,
    Scale,
    Statement,
    Study,
    difference_part,
    mean_part,
    mean_row,
)

Floats = NDArray[np.float64]

PCP = "BTL-PCP-PE"
ALL_LAYERS = {
    "TL-freeze": Fit("freeze", {}),
    "TL-fine-tune": Fit("fine_tune", {}),
    "BTL-BNN": Fit("btl_bnn", {}),
    PCP: Fit("btl_pcp_pe", {"lam": "corr"}),
    "target only": Fit("target_only", {}),
}
# The thesis has 1,000, 2,500 and 5,000; the demo has 1,600 crystals.
SIZES = {"smoke": (40, 60), "laptop": (100, 200), "paper": (100, 250, 500, 1000)}
SIZES_OF_C = {"smoke": (40, 60), "laptop": (100, 200, 400), "paper": (100, 250, 500, 1000)}
SPLITS_OF_C = {"smoke": 2, "laptop": 2, "paper": 10}
COVERAGE = coverage_of(0.95)
MEAN_OF_C = "posterior mean of c"
NOT_PUBLIC = "the molecular crystals of the thesis are not public, and its targets are larger."


def errors_of_targets(scale: Scale, seed: int) -> Result:
    """Compare methods of all layers for growing targets (figure 2.3)."""
    sizes = SIZES[scale]
    quantities = (MSE, COVERAGE, WIDTH, SECONDS)
    compared, rows = compare(ALL_LAYERS, sizes, quantities, level=0.95, scale=scale, seed=seed)
    n = sizes[-1]
    rivals = [name for name in ALL_LAYERS if name != PCP]
    printed_texts = {
        name: "covers {} with width {}".format(
            *(
                row_of("section_2_5", quantity=f"{quantity}_95_test", method=method)["value"]
                for quantity in ("coverage", "width")
            )
        )
        for name, method in ((PCP, "BTL_PCP_PE"), ("BTL-BNN", "BTL_BNN"))
    }
    misses = [np.abs(compared.figures[n, name][COVERAGE] - 0.95) for name in (PCP, "BTL-BNN")]
    return Result(
        rows=rows,
        statements=[
            Statement(
                "The error of each method decreases as n increases.",
                [
                    mean_part(
                        f"{name}, n = {small} to {large}",
                        compared.figures[large, name][MSE] - compared.figures[small, name][MSE],
                    )
                    for name in ALL_LAYERS
                    for small, large in itertools.pairwise(sizes)
                ],
            ),
            Statement(
                f"{PCP} has the lowest error in all cases.",
                compared.below(sizes, PCP, rivals, MSE),
            ),
            Statement(
                f"The 95 % intervals of {PCP} cover nearer to 95 % than those of BTL-BNN.",
                [mean_part(f"n = {n}: difference of the distances", misses[0] - misses[1])],
            ),
            Statement(
                f"The 95 % intervals of {PCP} are narrower than those of BTL-BNN.",
                compared.below([n], PCP, ["BTL-BNN"], WIDTH),
            ),
        ],
        notes=[
            *demo_notes(scale, SPLITS[scale]),
            "The molecular crystals of the thesis are not public, so that numbers cannot be "
            f"compared. Printed at n = 5,000: {PCP} {printed_texts[PCP]} eV, BTL-BNN "
            f"{printed_texts['BTL-BNN']} eV.",
            f"MEGNet and SchNet are not run. {PCP} has the thesis' rule for lam.",
        ],
        draw=lambda figure: draw_errors(figure, sizes, compared),
    )


def draw_errors(figure: Figure, sizes: tuple[int, ...], compared: Compared) -> None:
    """Draw the error against n; each point is a split, as in the figure of the thesis."""
    axes = figure.subplots()
    for number, name in enumerate(ALL_LAYERS):
        values = [compared.figures[n, name][MSE] for n in sizes]
        colour = COLOURS[number]
        axes.plot(sizes, [part.mean() for part in values], color=colour, label=name)
        for n, part in zip(sizes, values, strict=True):
            axes.plot([n] * len(part), part, "o", ms=3, color=colour)
    axes.set(xlabel="training crystals", ylabel=MSE, xscale="log", xticks=sizes)
    axes.set_xticks([], minor=True)
    axes.set_xticklabels([f"{n}" for n in sizes])
    axes.grid(alpha=0.3)
    figure.legend(fontsize=7, loc="outside lower center", ncols=5, frameon=False)


def shares_of_layers(scale: Scale, seed: int) -> Result:
    """Fit BTL-PCP-PE to growing targets; return the posterior of c, and errors (figure 2.4)."""
    source, table = demo_table(CRYSTALS[scale])
    sizes = SIZES_OF_C[scale]
    rows: list[Row] = []
    pictures: dict[str, tuple[Floats, Floats]] = {}
    for n in sizes:
        draws_of_c = []
        errors: dict[str, list[float]] = {"training": [], "test": []}
        for split in range(SPLITS_OF_C[scale]):
            fitted = fit_to_split(
                source,
                table,
                ALL_LAYERS[PCP],
                n=n,
                n_test=TEST_ROWS[scale],
                seed=1000 * seed + split,
                brief=scale == "smoke",
            )
            draws_of_c.append(fitted.posterior.summaries()["c"].reshape(-1, 3))
            for name, part in (("training", fitted.train), ("test", fitted.test)):
                predicted = means_eV(fitted, part)
                errors[name].append(float(((predicted - part.gaps_eV) ** 2).mean()))
                pictures[name] = (part.gaps_eV, predicted)  # the last split of the largest size
        shares = np.array([draws.mean(0) for draws in draws_of_c])
        for layer in range(3):
            cells = row_of("section_2_5", quantity=f"posterior_mean_c{layer + 1}")
            for quantity, column, values in (
                (MEAN_OF_C, "value", shares[:, layer]),
                ("posterior sd of c", "sd", [draws[:, layer].std() for draws in draws_of_c]),
            ):
                rows.append(
                    mean_row(
                        values,
                        setting=f"n = {n}, layer {layer + 1}",
                        method=PCP,
                        quantity=quantity,
                        table="section_2_5",
                        published=printed(cells, column) if n == sizes[-1] else None,
                    )
                )
        rows += [
            mean_row(values, setting=f"n = {n}, {name} rows", method=PCP, quantity=MSE)
            for name, values in errors.items()
        ]
    return Result(
        rows=rows,
        statements=statements_on_shares(rows, sizes[-1]),
        incomparable={PCP: NOT_PUBLIC},
        notes=[
            *demo_notes(scale, SPLITS_OF_C[scale]),
            "c has the prior Dirichlet(1, 1, 1) of the thesis, with mean 0.33 and standard "
            "deviation 0.24, and lam is set by the thesis' rule. Where the posterior's standard "
            "deviation is as large as the prior's, the target says little about c.",
        ],
        draw=lambda figure: draw_predictions(figure, pictures),
    )


def statements_on_shares(rows: Sequence[Row], n: int) -> list[Statement]:
    """Return the statements on c at the largest size n."""
    c = [
        row
        for layer in (1, 2, 3)
        for row in rows
        if (row.setting, row.quantity) == (f"n = {n}, layer {layer}", MEAN_OF_C)
    ]
    last = c[2]
    return [
        Statement(
            "Most of the prior variance is in the output layer (c3 above 0.8).",
            [
                Part(
                    what=f"n = {n}: posterior mean of c3",
                    value=last.value,
                    error=last.error,
                    n_values=last.n_values,
                    low=0.8,
                )
            ],
            "printed 0.90 at n = 5,000; 0.33 in the prior",
        ),
        Statement(
            "The share of the output layer is larger than those of the hidden layers.",
            [
                difference_part(f"n = {n}: c{layer} minus c3", c[layer - 1], last)
                for layer in (1, 2)
            ],
            "printed 0.05, 0.05, 0.90",
        ),
    ]


def means_eV(fitted: Fitted, table: Table) -> Floats:
    """Return the mean of the predictive distribution of every row (n,)."""
    draws = fitted.posterior.predictive_draws(table.features)
    means: Floats = draws.flat_means_eV.mean(0)
    return means


def draw_predictions(figure: Figure, pictures: dict[str, tuple[Floats, Floats]]) -> None:
    """Draw predicted against true gaps of one split, training rows left, test rows right."""
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (name, (true, predicted)) in zip(panels, pictures.items(), strict=True):
        axes.plot(true, predicted, "o", ms=3, alpha=0.5, color=COLOURS[0])
        ends = [true.min(), true.max()]
        axes.plot(ends, ends, color="#7A8086", lw=1)
        axes.set(title=f"{name} rows", xlabel="gap (eV)")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("predicted gap (eV)")


STUDIES = (
    Study(
        name="figure-2.3",
        title="Error against the number of training rows, on the demo crystals",
        source="Abba (2023), section 2.5, figure 2.3",
        tables=("section_2_5",),
        run=errors_of_targets,
        fault=METHODS_SWAPPED,
        left_out="MEGNet and SchNet; n above 1,000. The numbers are of other crystals",
    ),
    Study(
        name="figure-2.4",
        title="Predicted gaps and the posterior of c, on the demo crystals",
        source="Abba (2023), section 2.5, figure 2.4",
        tables=("section_2_5",),
        run=shares_of_layers,
        fault=Fault(text="c3 three times as large", factor=3.0, method="posterior mean of c3"),
        left_out="n above 1,000. The numbers are of other crystals",
    ),
)
