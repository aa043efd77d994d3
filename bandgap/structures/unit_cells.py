"""Compute the vectors of a unit cell from its parameters, and the error of its metric tensor.

The metric tensor of cell vectors V (rows) is G = V V^T. The squared length of a difference x of
fractional coordinates is x^T G x.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Unreadable
from bandgap.structures.neighbours import LARGEST_ANGSTROM, check_volume

Floats = NDArray[np.float64]

# Deviation from its symmetry of a cell that was relaxed without symmetry constraints: a fraction of
# a length, and radians.
RELAXATION_SLACK = 0.002
# Upper limits of the rounding error. A whole number such as 5 or 90 is mostly exact, so that half a
# unit of its last digit would be too much.
_LARGEST_ROUNDING_ANGSTROM = 0.05
_LARGEST_ROUNDING_DEGREES = 0.5
_DECIMALS = re.compile(r"[^.]*(?:\.(?P<decimals>\d*))?[^eEdD^]*(?:[eEdD^]+(?P<exponent>[+-]?\d+))?")


@dataclass(frozen=True, eq=False)
class UnitCell:
    """A unit cell with lengths in Angstrom, angles in degrees, and its vectors."""

    lengths: tuple[float, ...]
    angles: tuple[float, ...]
    vectors: Floats  # (3, 3), rows, Angstrom
    metric_error: Floats  # (3, 3), largest error of each entry of the metric tensor, Angstrom^2

    @property
    def metric(self) -> Floats:
        """Return the metric tensor (3, 3), Angstrom^2."""
        product: Floats = self.vectors @ self.vectors.T
        return product


def unit_cell(values: Sequence[float], *, texts: Sequence[str]) -> UnitCell:
    """Return the cell of three lengths (Angstrom) and three angles (degrees).

    `texts` are the six values as the file writes them; the digits give the rounding error. Raises
    Unreadable if no such cell exists.
    """
    lengths = list(values[:3])
    angles = list(values[3:])
    vectors = cell_vectors(lengths, angles)
    length_error = min(_rounding(texts[:3]), _LARGEST_ROUNDING_ANGSTROM)
    angle_error = math.radians(min(_rounding(texts[3:]), _LARGEST_ROUNDING_DEGREES))
    error = _metric_error(lengths, angles, length_error=length_error, angle_error=angle_error)
    return UnitCell(tuple(lengths), tuple(angles), vectors, error)


def cell_vectors(lengths: list[float], angles: list[float]) -> Floats:
    """Return cell vectors as rows (3, 3), Angstrom, with a along x and b in the xy plane.

    Lengths are in Angstrom and angles in degrees. Raises Unreadable if no such cell exists.
    """
    if not all(math.isfinite(v) for v in (*lengths, *angles)):
        raise Unreadable("the unit cell contains a value that is not a finite number")
    if any(length <= 0 for length in lengths):
        raise Unreadable(
            f"the unit cell has a length of {min(lengths):g} A. Lengths must be above zero"
        )
    if max(lengths) > LARGEST_ANGSTROM:
        raise Unreadable(
            f"the unit cell has a length of {max(lengths):.3g} A, which is too large for a"
            " structure; is the unit right?"
        )
    cos_alpha, cos_beta, cos_gamma = (0.0 if a == 90 else math.cos(math.radians(a)) for a in angles)
    squared_volume = (
        1 - cos_alpha**2 - cos_beta**2 - cos_gamma**2 + 2 * cos_alpha * cos_beta * cos_gamma
    )
    if not all(0 < angle < 180 for angle in angles) or squared_volume <= 1e-8:
        raise Unreadable(
            f"no unit cell has the angles {', '.join(f'{a:g}' for a in angles)}: its volume would"
            " be zero"
        )
    a, b, c = lengths
    sin_gamma = math.sqrt(1 - cos_gamma**2)
    y = (cos_alpha - cos_beta * cos_gamma) / sin_gamma
    c_vector = [c * cos_beta, c * y, c * math.sqrt(squared_volume) / sin_gamma]
    cell = np.array([[a, 0.0, 0.0], [b * cos_gamma, b * sin_gamma, 0.0], c_vector])
    check_volume(cell)
    return cell


def _rounding(texts: Sequence[str]) -> float:
    """Return half a unit of the last digit of the most precise number.

    The most precise number counts for all, because programs omit trailing zeros.
    """
    return 0.5 * 10.0 ** -max(0, *(_decimal_places(text) for text in texts))


def _decimal_places(text: str) -> int:
    match = _DECIMALS.match(text.strip())
    if match is None:
        return 0
    return len(match["decimals"] or "") - int(match["exponent"] or 0)


def _metric_error(
    lengths: list[float], angles: list[float], *, length_error: float, angle_error: float
) -> Floats:
    """Return the error of the metric tensor (3, 3), Angstrom^2, to first order."""
    alpha, beta, gamma = np.radians(angles)
    angle_matrix = np.array([[0.0, gamma, beta], [gamma, 0.0, alpha], [beta, alpha, 0.0]])
    a = np.array(lengths)
    errors_of_lengths = length_error + RELAXATION_SLACK * a
    error_by_lengths = np.abs(np.cos(angle_matrix)) * (
        np.outer(errors_of_lengths, a) + np.outer(a, errors_of_lengths)
    )
    error_by_angles = (
        np.abs(np.sin(angle_matrix)) * np.outer(a, a) * (angle_error + RELAXATION_SLACK)
    )
    error: Floats = error_by_lengths + error_by_angles
    return error
