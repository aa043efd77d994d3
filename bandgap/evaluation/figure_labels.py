"""Labels of the figures of a run, for the terminal. Loads no torch."""

from bandgap.foundation.quantities import Quantity

_LABELS = {q.column: q.axis for q in Quantity} | {
    "n": "structures",
    "signed_error_eV": "mean signed error (eV)",
    "mean_gap_rmse_eV": "RMSE of the mean gap (eV)",
    "n_near_copies": "structures with a near-copy learned from",
    "rmse_without_near_copies_eV": "RMSE of the others (eV)",
    "brier_metal": "Brier score of the probability of a metal",
    "auc_metal": "area under the ROC curve of metals",
    "c_mean": "layer weights c, mean",
    "rhat_max": "R-hat, largest",
    "ess_min": "effective draws, fewest",
    "seconds": "time",
}


def label(name: str) -> str:
    """Return the label of a figure.

    >>> label("rmse_eV"), label("coverage_95"), label("width_95_eV")
    ('RMSE (eV)', 'coverage of the 95 % interval', 'mean width of the 95 % interval (eV)')
    >>> label("validation_rmse_eV")
    'validation RMSE (eV)'
    >>> label("coverage_conformal_95")
    'coverage of the conformal 95 % interval'
    """
    if name in _LABELS:
        return _LABELS[name]
    head, _, tail = name.partition("_")
    if head in ("coverage", "width") and tail:
        noun, unit = ("coverage", "") if head == "coverage" else ("mean width", " (eV)")
        return f"{noun} of the {tail.removesuffix('_eV').replace('_', ' ')} % interval{unit}"
    return f"{head} {_LABELS[tail]}" if tail in _LABELS else name.replace("_", " ")
