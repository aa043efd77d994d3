"""Rounded ReLU: its values, its gate, which is its slope, and ReLU for width zero."""

import pytest
import torch

from bandgap.inference.soft_rectifier import rectified, through_relu

X = torch.linspace(-3.0, 3.0, 601, dtype=torch.float64).reshape(1, -1, 1)


@pytest.mark.parametrize("width", [0.1, 1.0, 2.5])
def test_rounded_relu_is_relu_outside_the_width_and_a_quarter_of_it_above_at_the_corner(width):
    wide, gate = rectified(X, 7.0, width)
    relu = X.clamp(min=0.0)
    far = X.abs() >= width
    torch.testing.assert_close(wide[..., :-1][far], relu[far])
    torch.testing.assert_close(gate[far], (X[far] > 0).double())
    above = wide[..., :-1] - relu
    assert float(above.min()) > -1e-15 and float(above.max()) == pytest.approx(width / 4)
    assert bool((wide[..., -1] == 7.0).all())


def test_gate_is_the_slope():
    x = X.clone().requires_grad_()
    wide, gate = rectified(x.detach(), 1.0, 0.805)  # no x is at its ends
    u = ((x + 0.805) / 1.61).clamp(0.0, 1.0)
    (torch.relu(x - 0.805) + 0.805 * u**2).sum().backward()
    torch.testing.assert_close(gate, x.grad)
    slope = (wide[:, 2:, 0] - wide[:, :-2, 0]) / 0.02
    torch.testing.assert_close(slope, gate[:, 1:-1, 0], rtol=0, atol=0.01)


def test_width_zero_is_relu_with_its_backward_pass_from_the_features():
    wide, gate = rectified(X, 1.0)
    assert gate is None
    torch.testing.assert_close(wide[..., :-1], X.clamp(min=0.0))
    g = torch.arange(601, dtype=torch.float64).reshape(1, -1, 1)
    torch.testing.assert_close(through_relu(g, wide), torch.where(X > 0, g, torch.zeros_like(g)))
