"""Leading inputs, networks with fixed weights of some inputs, and paths of the trailing weights."""

import dataclasses
import math

import pytest
import torch
from scipy import stats

from bandgap.inference.network.input_split import leading_inputs, step_trailing, unit_spans
from bandgap.inference.network.joint_density import log_force
from bandgap.inference.network.joint_hmc import square_norm
from bandgap.inference.network.whitened_network import hidden_features, integrate_output, whiten
from bandgap.research.shared.scaled_network import whiten_scaled
from tests.unit.inference.network.problems import (
    CPU,
    draw_z,
    prior_of,
    raw,
    sds_of,
    slope,
    state_of,
    with_labels_from_the_model,
)

STATE = state_of([-2.0, -0.7, -0.5, 0.2, -0.4], [-4.0, -0.2, 0.1, -1.2, 0.3])
CHAINS = 400
FALSE_ALARM = 1e-4


def problem(n=7, p=5):
    theta_hat, x, y = raw(n, p)
    return whiten(theta_hat, x, y, device=CPU, dtype=torch.float64), prior_of(theta_hat, x)


def with_variances(net, variances):
    scale = torch.tensor(variances, dtype=torch.float64).sqrt()
    return dataclasses.replace(
        net, inputs=torch.linalg.qr(net.inputs).Q[:, : len(variances)] * scale
    )


def test_leading_inputs_have_all_but_a_hundredth_of_the_variance():
    net, _ = problem()
    assert leading_inputs(with_variances(net, [90.0, 9.5, 0.3, 0.1, 0.1])) == 2
    assert leading_inputs(with_variances(net, [50.0, 30.0, 19.5, 0.3, 0.2])) == 3


def test_nothing_is_split_where_most_inputs_lead_or_weights_differ():
    net, _ = problem()
    assert leading_inputs(with_variances(net, [20.0, 20.0, 20.0, 20.0, 20.0])) == 5
    theta_hat, x, y = raw(7, 5)
    scaled = whiten_scaled(theta_hat, sds_of(theta_hat), x, y, device=CPU, dtype=torch.float64)
    assert leading_inputs(scaled) == scaled.inputs.shape[1]


def test_spans_are_what_one_radian_adds_to_a_units_input():
    """Scales times the root mean square change of the pre-activations, in both kinds of network."""
    theta_hat, x, y = raw(7, 5)
    scaled = whiten_scaled(theta_hat, sds_of(theta_hat), x, y, device=CPU, dtype=torch.float64)
    layer_scales = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    for net in (problem()[0], scaled):
        scales = problem()[1].scales(STATE[:1])
        z = draw_z(net, 1)
        spans = unit_spans(net, z, scales, layer_scales=layer_scales, leading=net.inputs.shape[1])
        inputs = hidden_features(net, z, scales).inputs
        many = draw_z(net, 4000, seed=3)
        one = torch.ones(4000, 1, 1, dtype=torch.float64)
        moved = inputs[1] @ (net.weights(1, one, many[1]) - net.theta_hat[1]).mT
        expected = [
            0.5 * net.project(many[0]).square().mean().sqrt(),
            2.0 * moved.square().mean().sqrt(),
        ]
        assert spans == pytest.approx([float(e) for e in expected], rel=0.05)
    net, prior = problem()
    first = unit_spans(
        net, draw_z(net, 1), prior.scales(STATE[:1]), layer_scales=layer_scales, leading=2
    )[0]
    assert first == pytest.approx(0.5 * float(net.inputs[:, :2].square().sum(-1).mean().sqrt()))


@pytest.mark.parametrize("step", [0.69, 1000.0])
def test_absurd_trailing_path_is_rejected_and_does_not_move_the_chain(step):
    net, prior = problem()
    state = state_of([8.0, -12.0, 0.0, 0.0, 0.0])
    z = draw_z(net, 1, size=30.0)
    generator = torch.Generator().manual_seed(1)
    moved, did = step_trailing(
        net, z, state, prior=prior, leading=2, step=step, max_steps=3, generator=generator
    )
    assert not bool(did.accepted.any()) and bool(did.divergent.all())
    assert all(torch.equal(a, b) for a, b in zip(moved, z, strict=True))


@pytest.mark.parametrize("columns", [slice(None, 3), slice(3, None)])
def test_network_of_some_inputs_is_the_network_with_the_other_weights_fixed(columns):
    net, prior = problem()
    z = draw_z(net, 2)
    part = net.with_inputs(columns, z[0])
    part_z = [z[0][:, :, columns], *z[1:]]
    scales = prior.scales(STATE)
    torch.testing.assert_close(
        hidden_features(part, part_z, scales).features, hidden_features(net, z, scales).features
    )
    expected = log_force(net, z, STATE, prior)
    force = log_force(part, part_z, STATE, prior)
    torch.testing.assert_close(force.value, expected.value)
    torch.testing.assert_close(force.by_z[0], expected.by_z[0][:, :, columns])
    torch.testing.assert_close(force.by_state, expected.by_state)
    torch.testing.assert_close(
        part.repeated(3).fixed_preactivation,
        torch.stack([part.fixed_preactivation[i // 3] for i in range(6)]),
        rtol=0,
        atol=0,
    )


def test_rounded_force_of_some_inputs_is_that_of_central_differences():
    net, prior = problem()
    z = draw_z(net, 2)
    widths = (0.4, 0.3)
    part = net.with_inputs(slice(None, 3), z[0])
    at = [z[0][:, :, :3], *z[1:]]

    def value(state):
        scales = prior.scales(state)
        hidden = hidden_features(part, at, scales, widths=widths)
        return integrate_output(part, hidden, scales).log_likelihood + prior.log_density(state)

    by_state = log_force(part, at, STATE, prior, widths=widths).by_state
    torch.testing.assert_close(by_state, slope(value, STATE), rtol=1e-6, atol=1e-6)


def test_trailing_paths_move_their_weights_alone_and_keep_the_posterior():
    """With labels from the model, z still follows the prior after paths given the labels."""
    net, prior = problem(6, 4)
    generator = torch.Generator().manual_seed(3)
    state = prior.draw(CHAINS, generator=generator)
    z = draw_z(net, CHAINS, seed=4)
    labelled = with_labels_from_the_model(net, z, prior.scales(state), generator=generator)
    start = z
    for _ in range(3):
        z, did = step_trailing(
            labelled, z, state, prior=prior, leading=2, step=0.3, max_steps=20, generator=generator
        )
    assert float(did.accept.mean()) > 0.6
    assert torch.equal(z[0][:, :, :2], start[0][:, :, :2]) and torch.equal(z[1], start[1])
    moved = z[0][:, :, 2:]
    before = start[0][:, :, 2:]
    assert float((moved - before).abs().median()) > 0.3
    size = moved[0].numel()
    assert stats.kstest(square_norm([moved]).numpy(), stats.chi2(size).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(moved.flatten().numpy(), "norm").pvalue > FALSE_ALARM
    product = (moved * z[0][:, :, :1]).sum((1, 2)) / math.sqrt(moved.shape[1] * moved.shape[2])
    assert (
        stats.kstest(product.numpy(), products_of_normals(moved.shape, generator)).pvalue
        > FALSE_ALARM
    )


def products_of_normals(shape, generator):
    """Return sums of products of independent normal weights, for the two-sample test."""
    a = torch.randn((20_000, *shape[1:]), generator=generator, dtype=torch.float64)
    b = torch.randn((20_000, shape[1], 1), generator=generator, dtype=torch.float64)
    return ((a * b).sum((1, 2)) / math.sqrt(shape[1] * shape[2])).numpy()
