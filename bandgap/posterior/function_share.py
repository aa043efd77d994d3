r"""Each layer's share of the freedom to change the predicted function, beside its share c of that of the weights.

Given tau and c, theta_l - theta_hat_l ~ N(0, tau c_l I) for every layer l. To first order f(x; theta) - f(x; theta_hat)
= sum_l (theta_l - theta_hat_l)'grad_l f(x; theta_hat), whose terms are independent with variances tau c_l alpha_l(x),
alpha_l(x) = |grad_l f(x; theta_hat)|^2. Of the variance averaged over the training inputs, layer l has the share

    kappa_l = c_l mean_j alpha_l(x_j) / sum_m c_m mean_j alpha_m(x_j)

alpha and the linear form are those of Abba (2023), section 2.3.3. A layer with many inputs has a large alpha: a small c
may then be most of the change. Where the prior covariance is tau c_l Sigma_l, with a diagonal Sigma_l, alpha_l(x) is
grad_l' Sigma_l grad_l.
"""

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]


def function_share(c: Floats, sensitivity: Floats) -> Floats:
    """Return kappa (..., L) for layer weights c (..., L) and the mean alpha of every layer (L,).

    Raises InputError where the numbers of layers differ, or a sensitivity is negative or all are zero.
    """
    if c.shape[-1:] != sensitivity.shape or (sensitivity < 0).any() or not sensitivity.any():
        raise InputError(
            f"function share: c has shape {c.shape}, sensitivity {sensitivity}. Accepted: one sensitivity a layer, 0 "
            "or more and not all 0."
        )
    parts = c * sensitivity
    result: Floats = parts / parts.sum(-1, keepdims=True)
    return result
