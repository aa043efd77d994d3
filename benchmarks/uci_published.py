"""Published figures of PBP and SSPBP on the UCI sets, for comparison with `benchmarks.uci`.

Hernandez-Lobato and Adams (2015), tables 2 and 3: PBP with 50 hidden units, 20 splits of 90/10.

"Probabilistic Neural Networks" (thesis, 2022), tables 3.3, 3.4 and A.1 to A.6: both methods, four
networks, with and without biases; means and standard errors of five splits of 80/20, which differ
from the splits here. The set energy is left out: the thesis predicts the cooling load with the
heating load as a feature.
"""

from dataclasses import dataclass
from typing import Final, Literal

# RMSE and mean log density of PBP with 50 hidden units.
PAPER: Final = {
    "bostonHousing": (3.014, -2.574),
    "concrete": (5.667, -3.161),
    "energy": (1.804, -2.042),
    "kin8nm": (0.098, 0.896),
    "naval-propulsion-plant": (0.006, 3.731),
    "power-plant": (4.124, -2.837),
    "wine-quality-red": (0.635, -0.968),
    "yacht": (1.015, -1.634),
}


@dataclass(frozen=True)
class Printed:
    """A printed mean over splits and its standard error."""

    mean: float
    error: float


@dataclass(frozen=True)
class Row:
    """RMSE in the labels' units and mean log density of one method on one set."""

    rmse: Printed
    log_density: Printed


def published(
    name: str, *, method: Literal["pbp", "sspbp"], hidden: tuple[int, ...], biased: bool
) -> Row | None:
    """Return the thesis's row of a set, None if it has no such network or set."""
    numbers_of_set = _THESIS.get((hidden, biased), {}).get(name)
    if numbers_of_set is None:
        return None
    first = 0 if method == "pbp" else 4
    numbers = numbers_of_set[first : first + 4]
    return Row(Printed(*numbers[:2]), Printed(*numbers[2:]))


# By network, biases and set: RMSE, its error, log density and its error of PBP, then of SSPBP.
_THESIS: Final[dict[tuple[tuple[int, ...], bool], dict[str, tuple[float, ...]]]] = {
    ((50,), True): {
        "bostonHousing": (3.554, 0.179, -2.771, 0.076, 3.566, 0.198, -2.787, 0.087),
        "concrete": (5.616, 0.125, -3.149, 0.025, 5.662, 0.105, -3.157, 0.022),
        "kin8nm": (0.098, 0.001, 0.901, 0.008, 0.1, 0.001, 0.885, 0.01),
        "naval-propulsion-plant": (0.006, 0.0, 3.725, 0.006, 0.006, 0.0, 3.717, 0.007),
        "power-plant": (4.117, 0.037, -2.834, 0.009, 4.116, 0.033, -2.834, 0.008),
        "wine-quality-red": (0.655, 0.003, -1.002, 0.006, 0.654, 0.003, -1.001, 0.006),
        "yacht": (1.344, 0.061, -1.767, 0.027, 1.367, 0.071, -1.775, 0.031),
    },
    ((10, 10), True): {
        "bostonHousing": (3.097, 0.147, -2.576, 0.073, 2.997, 0.165, -2.535, 0.076),
        "concrete": (6.031, 0.161, -3.218, 0.028, 5.921, 0.158, -3.201, 0.029),
        "kin8nm": (0.111, 0.004, 0.784, 0.034, 0.109, 0.002, 0.799, 0.015),
        "naval-propulsion-plant": (0.006, 0.0, 3.713, 0.019, 0.006, 0.0, 3.686, 0.005),
        "power-plant": (4.088, 0.067, -2.828, 0.017, 4.096, 0.066, -2.83, 0.016),
        "wine-quality-red": (0.653, 0.012, -1.009, 0.025, 0.652, 0.008, -1.003, 0.016),
        "yacht": (1.064, 0.072, -1.714, 0.054, 1.131, 0.063, -1.749, 0.032),
    },
    ((10,), True): {
        "bostonHousing": (3.787, 0.344, -2.81, 0.14, 3.789, 0.351, -2.823, 0.141),
        "concrete": (6.221, 0.222, -3.253, 0.039, 6.426, 0.184, -3.284, 0.032),
        "kin8nm": (0.14, 0.002, 0.549, 0.017, 0.137, 0.003, 0.567, 0.021),
        "naval-propulsion-plant": (0.009, 0.0, 3.275, 0.008, 0.009, 0.0, 3.276, 0.005),
        "power-plant": (4.057, 0.046, -2.821, 0.01, 4.068, 0.042, -2.824, 0.01),
        "wine-quality-red": (0.619, 0.01, -0.941, 0.017, 0.617, 0.009, -0.937, 0.015),
        "yacht": (1.769, 0.197, -2.022, 0.083, 1.747, 0.177, -2.012, 0.07),
    },
    ((100,), True): {
        "bostonHousing": (3.432, 0.244, -2.727, 0.106, 3.437, 0.255, -2.725, 0.111),
        "concrete": (5.565, 0.056, -3.136, 0.011, 5.574, 0.028, -3.138, 0.006),
        "kin8nm": (0.091, 0.0, 0.968, 0.003, 0.091, 0.001, 0.975, 0.005),
        "naval-propulsion-plant": (0.004, 0.0, 3.949, 0.005, 0.004, 0.0, 3.945, 0.006),
        "power-plant": (4.157, 0.025, -2.844, 0.006, 4.159, 0.024, -2.845, 0.006),
        "wine-quality-red": (0.63, 0.014, -0.959, 0.027, 0.628, 0.014, -0.955, 0.026),
        "yacht": (1.22, 0.057, -1.751, 0.017, 1.176, 0.054, -1.739, 0.011),
    },
    ((50,), False): {
        "bostonHousing": (3.529, 0.296, -2.699, 0.105, 3.544, 0.301, -2.709, 0.108),
        "concrete": (7.092, 0.108, -3.385, 0.019, 7.01, 0.156, -3.373, 0.026),
        "kin8nm": (0.159, 0.002, 0.421, 0.013, 0.158, 0.002, 0.424, 0.012),
        "naval-propulsion-plant": (0.006, 0.0, 3.673, 0.006, 0.006, 0.0, 3.658, 0.006),
        "power-plant": (4.3, 0.054, -2.879, 0.013, 4.295, 0.052, -2.878, 0.012),
        "wine-quality-red": (0.621, 0.013, -0.944, 0.023, 0.618, 0.013, -0.939, 0.022),
        "yacht": (6.2, 0.269, -3.264, 0.055, 6.319, 0.282, -3.29, 0.059),
    },
    ((10, 10), False): {
        "bostonHousing": (3.809, 0.295, -2.944, 0.191, 3.865, 0.322, -2.916, 0.146),
        "concrete": (6.823, 0.214, -3.343, 0.034, 6.668, 0.237, -3.349, 0.033),
        "kin8nm": (0.126, 0.001, 0.655, 0.009, 0.125, 0.001, 0.662, 0.005),
        "naval-propulsion-plant": (0.005, 0.0, 3.772, 0.029, 0.006, 0.0, 3.703, 0.021),
        "power-plant": (4.19, 0.017, -2.852, 0.004, 4.188, 0.023, -2.851, 0.006),
        "wine-quality-red": (0.635, 0.011, -0.974, 0.022, 0.633, 0.014, -0.986, 0.025),
        "yacht": (3.898, 0.245, -2.687, 0.054, 4.276, 0.39, -2.73, 0.068),
    },
    ((10,), False): {
        "bostonHousing": (4.12, 0.104, -2.912, 0.056, 4.061, 0.149, -2.891, 0.057),
        "concrete": (8.24, 0.081, -3.551, 0.015, 8.242, 0.102, -3.555, 0.018),
        "kin8nm": (0.165, 0.001, 0.382, 0.005, 0.165, 0.001, 0.395, 0.003),
        "naval-propulsion-plant": (0.009, 0.0, 3.251, 0.008, 0.009, 0.0, 3.239, 0.008),
        "power-plant": (4.33, 0.033, -2.885, 0.008, 4.335, 0.026, -2.886, 0.006),
        "wine-quality-red": (0.642, 0.003, -0.978, 0.006, 0.636, 0.004, -0.969, 0.007),
        "yacht": (6.248, 0.381, -3.285, 0.079, 6.275, 0.353, -3.291, 0.076),
    },
    ((100,), False): {
        "bostonHousing": (3.279, 0.146, -2.597, 0.048, 3.26, 0.124, -2.589, 0.04),
        "concrete": (6.726, 0.19, -3.327, 0.029, 6.718, 0.183, -3.326, 0.028),
        "kin8nm": (0.156, 0.002, 0.441, 0.014, 0.156, 0.002, 0.441, 0.013),
        "naval-propulsion-plant": (0.005, 0.0, 3.885, 0.006, 0.005, 0.0, 3.895, 0.012),
        "power-plant": (4.208, 0.049, -2.857, 0.012, 4.207, 0.047, -2.856, 0.011),
        "wine-quality-red": (0.637, 0.008, -0.969, 0.013, 0.635, 0.007, -0.965, 0.013),
        "yacht": (7.233, 0.486, -3.335, 0.046, 6.215, 0.152, -3.213, 0.027),
    },
}
