"""Figures of the dashboard and of notebooks by plotly, with one template.

Every function returns a `plotly.graph_objects.Figure`; arrays are numpy, energies in eV.

Not here: sentences, and code that reads files.
"""

from bandgap.plots.calibration import (
    coverage_figure,
    spread_figure,
)
from bandgap.plots.chains import traces
from bandgap.plots.comparison import difference_figure
from bandgap.plots.error_by_labels import error_by_labels_figure
from bandgap.plots.metals import p_metal_figure
from bandgap.plots.posterior import layer_names, layer_weights
from bandgap.plots.predictions import gap_histogram, intervals, parity
from bandgap.plots.publication import figure_file, figure_numbers, save_figure
from bandgap.plots.signed_errors import signed_error_figure
from bandgap.plots.sources import learning_curve
from bandgap.plots.style import (
    BASELINE,
    GOOD,
    MIND,
    MODEL,
    OBSERVED,
    PRIOR,
    TEMPLATE,
    template,
    theme_css,
)

__all__ = [
    "BASELINE",
    "GOOD",
    "MIND",
    "MODEL",
    "OBSERVED",
    "PRIOR",
    "TEMPLATE",
    "coverage_figure",
    "difference_figure",
    "error_by_labels_figure",
    "figure_file",
    "figure_numbers",
    "gap_histogram",
    "intervals",
    "layer_names",
    "layer_weights",
    "learning_curve",
    "p_metal_figure",
    "parity",
    "save_figure",
    "signed_error_figure",
    "spread_figure",
    "template",
    "theme_css",
    "traces",
]
