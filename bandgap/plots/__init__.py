"""Figures of the dashboard and of notebooks: plotly only, one template, one meaning for each colour.

Every function returns a `plotly.graph_objects.Figure`; arrays are numpy, energies in eV.
"""

from bandgap.plots.posterior import draws_density, layer_weights
from bandgap.plots.predictions import gap_histogram, intervals, parity
from bandgap.plots.sources import learning_curve
from bandgap.plots.style import BASELINE, GOOD, MIND, MODEL, OBSERVED, PRIOR, TEMPLATE, template

__all__ = [
    "BASELINE",
    "GOOD",
    "MIND",
    "MODEL",
    "OBSERVED",
    "PRIOR",
    "TEMPLATE",
    "draws_density",
    "gap_histogram",
    "intervals",
    "layer_weights",
    "learning_curve",
    "parity",
    "template",
]
