"""Names, labels, units and explanations of all quantities, for tables, axes and CSV headers."""

import math
import re
from collections.abc import Collection, Mapping
from enum import Enum

# Above it, the chains do not agree yet.
RHAT_LIMIT = 1.05
# Several times the gap of solid helium or neon; a larger value has a wrong unit.
LARGEST_GAP_EV = 100.0


class Quantity(Enum):
    """A quantity: its column name, its label on axes and in headers, its unit and its help text."""

    ID = ("id", "structure", "", "The name of the structure in your files.")
    FILE = ("file", "file", "", "The file that contains the structure.")
    FORMULA = (
        "formula",
        "formula",
        "",
        "Chemical formula (Hill order), of a crystal that of its cell.",
    )
    N_ATOMS = ("n_atoms", "atoms", "", "Number of atoms, of a crystal those in its cell.")
    GAP = (
        "gap_eV",
        "band gap",
        "eV",
        "Energy between the highest occupied and the lowest unoccupied state.",
    )
    MEAN = ("mean_eV", "predicted band gap", "eV", "Mean of the posterior predictive distribution.")
    SD = (
        "sd_eV",
        "standard deviation",
        "eV",
        "Standard deviation of a new gap, or of the mean for a credible interval.",
    )
    P_METAL = (
        "p_metal",
        "probability of a metal",
        "",
        "Probability of a gap of zero; only where the labels contain metals.",
    )
    DOMAIN_P = (
        *("domain_p", "p-value of the domain", ""),
        "p-value: share of structures like those learned from that are as "
        "unusual as this one or more; empty where an element is unseen.",
    )
    LOWER = ("lower_eV", "lower end", "eV", "Lower end of the interval.")
    UPPER = ("upper_eV", "upper end", "eV", "Upper end of the interval.")
    P_WINDOW = (
        *("p_window", "chance of the window", ""),
        "Probability that a new gap lies in the target window, both ends included.",
    )
    LEVEL = ("level", "level", "", "Probability that the interval states.")
    INTERVAL = (
        *("interval", "interval", ""),
        "Kind: prediction (a new crystal's gap), credible (of the mean), conformal (a new "
        "crystal's gap, by held-back crystals).",
    )
    CONFORMAL = (
        *("conformal", "conformal interval", ""),
        "Its width is set by the errors on crystals that the model was not trained on, "
        "without further assumptions.",
    )
    DOMAIN = (
        "domain",
        "domain",
        "",
        "Whether the structure resembles what the model was trained on.",
    )
    STATUS = ("status", "status", "", "ok, warning or refused.")
    PROBLEM = ("problem", "problem", "", "What is wrong with the structure, and what to do.")
    RMSE = (
        "rmse_eV",
        "RMSE",
        "eV",
        "Root mean square error of the predicted gaps on held-out structures.",
    )
    MAE = (
        "mae_eV",
        "MAE",
        "eV",
        "Mean absolute error of the predicted gaps on held-out structures.",
    )
    NLL = (
        "nll",
        "NLL",
        "",
        "Mean negative log predictive density of the held-out gaps; lower is better.",
    )
    CRPS = (
        "crps_eV",
        "CRPS",
        "eV",
        "Continuous ranked probability score: error of the whole predicted distribution.",
    )
    COVERAGE = ("coverage", "coverage", "", "Share of held-out gaps that fall in their interval.")
    WIDTH = ("width_eV", "mean width", "eV", "Mean full width of the intervals.")
    R2 = (
        "r2",
        "R2",
        "",
        "Share of the variance of the held-out gaps that the predictions explain; 1 is all of it.",
    )
    MISCALIBRATION = (
        *("miscalibration", "miscalibration area", ""),
        "Area between the curve of coverage against level and the diagonal: 0 is calibrated, "
        "0.5 the worst.",
    )
    PIT = (
        *("pit", "PIT", ""),
        "Probability integral transform: the share of the predicted distribution below the known "
        "gap; spread evenly over 0 to 1 when the model is calibrated.",
    )
    C = (
        "c",
        "layer weight c",
        "",
        "Share of the freedom to move away from the source model that a layer takes.",
    )
    KAPPA = (
        *("kappa", "share of the function", ""),
        "Share of the freedom to change the predicted gap that a layer takes: c weighted by how "
        "much its weights do.",
    )
    LAYER_TAU = (
        "layer_tau",
        "scale tau of the layer",
        "",
        "Prior variance of the layer's weights: tau times c.",
    )
    TAU = (
        "tau",
        "global scale tau",
        "",
        "How far the weights may move away from the source model in all.",
    )
    SIGMA = (
        "sigma_eV",
        "noise sigma",
        "eV",
        "Scatter of the gaps that the network does not explain.",
    )
    RHAT = (
        "rhat",
        "R-hat",
        "",
        "Disagreement between chains; 1 means that they agree, "
        f"above {RHAT_LIMIT} they do not yet.",
    )
    ESS = (
        "ess_bulk",
        "effective draws",
        "",
        "Number of independent draws that carry the same information.",
    )

    def __init__(self, column: str, label: str, unit: str, help_text: str) -> None:
        self.column = column
        self.label = label
        self.unit = unit
        self.help = help_text

    @property
    def axis(self) -> str:
        """Label with its unit, as on an axis or a table header: "band gap (eV)"."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


MORE_ITERATIONS = (
    "Train again with more warm-up iterations or more draws of each chain "
    "(warmup, draws of the sampler)."
)


def quantity_words(name: str, names: Collection[str] = ()) -> str:
    """Return the name of a quantity in a message on convergence; `names` are all quantities.

    Examples
    --------

    >>> quantity_words("c3", ["c1", "c2", "c3", "tau"])
    'c3, the weight of the output layer'
    >>> quantity_words("tau")
    'tau'
    >>> quantity_words("fit_max"), quantity_words("predictions")
    ('the fitted gaps of the training structures', 'the predicted gaps')
    """
    functions = {
        "fit": "the fitted gaps of the training structures",
        "predictions": "the predicted gaps",
    }
    if (function := functions.get(name.removesuffix("_max"))) is not None:
        return function
    if not re.fullmatch(r"c\d+", name):
        return name
    last = max((int(other[1:]) for other in names if re.fullmatch(r"c\d+", other)), default=0)
    return f"{name}, the weight of " + (
        "the output layer" if int(name[1:]) == last else f"layer {name[1:]}"
    )


def worst_of(rhat: Mapping[str, float]) -> str:
    """Return the name of the largest R-hat; NaN counts as infinite."""
    return max(rhat, key=lambda name: math.inf if math.isnan(rhat[name]) else rhat[name])


def disagreement(rhat: Mapping[str, float]) -> str | None:
    """Return a message on the quantity with the largest R-hat, or None if the chains agree."""
    worst = worst_of(rhat)
    if rhat[worst] <= RHAT_LIMIT:
        return None
    return (
        f"The chains have not agreed yet on {quantity_words(worst, rhat)} (R-hat "
        f"{rhat[worst]:.3f}, want below {RHAT_LIMIT}). Predictions are usable for a look, not for "
        f"a table. {MORE_ITERATIONS}"
    )
