"""The curves of the benchmark `next`: error and gaps found by number of labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.next_labels import NEXT_SETS, NextFit, figures_by_strategy

COLOURS = {"random": "#767676", "reduction": "#0b6e99", "improvement": "#c2410c"}
LABELS = {
    "random": "random",
    "reduction": "expected reduction of error",
    "improvement": "expected improvement for the window",
}


def draw_next(fits: Sequence[NextFit], file: Path) -> None:
    """Draw the means over seeds with their standard errors, a column for each set."""
    from matplotlib.figure import Figure

    names = [name for name in NEXT_SETS if any(fit.set == name for fit in fits)]
    figure = Figure(figsize=(3.6 * len(names), 5.2), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False, sharex="col")
    for column, name in enumerate(names):
        for row, key in enumerate(("rmse_eV", "in_window")):
            axis = axes[row, column]
            for strategy, (sizes, values) in figures_by_strategy(fits, name, key).items():
                mean = values.mean(axis=0)
                error = values.std(axis=0, ddof=1 if len(values) > 1 else 0) / np.sqrt(len(values))
                colour = COLOURS[strategy]
                axis.plot(sizes, mean, color=colour, label=LABELS[strategy])
                axis.fill_between(
                    sizes, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0
                )
            axis.grid(alpha=0.25)
        axes[0, column].set_title(name)
        window = NEXT_SETS[name].window
        axes[1, column].set_ylabel(f"labels from {window.label}")
        axes[1, column].set_xlabel("number of labels")
    axes[0, 0].set_ylabel("RMSE on test structures (eV)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(file, dpi=120)
