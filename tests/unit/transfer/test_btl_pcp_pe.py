"""BTL-PCP-PE: its settings, its rate by the correlation rule, and where it is centred."""

import pytest
import torch

from bandgap.networks.perceptron import layer_gradient_norms, layers_of
from bandgap.transfer.btl_pcp_pe import fit
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.shared.point_prior import rate_by_correlation

BRIEF = {"chains": 2, "warmup": 20, "draws": 20, "keep": 4, "max_steps": 4}


def config(**settings):
    from bandgap.transfer import get_method

    return get_method("btl_pcp_pe").configure(
        {"sampler": BRIEF, "standardise": "source", **settings}
    )


def test_rate_by_correlation_is_computed_from_the_training_rows_and_reported(source_of, target):
    source = source_of()
    settings = config(lam="corr", corr=0.4, gap_scale="source")
    posterior = fit(source, target, settings, Fitting(3, device="cpu"))
    alpha = layer_gradient_norms(source.params, torch.from_numpy(target.features).double())
    expected = rate_by_correlation(alpha, corr=0.4, c0=settings.c0, seed=3)
    assert posterior.diagnostics.figures["lam"] == pytest.approx(expected, rel=1e-6)
    assert fit(source, target, config(), Fitting(3, device="cpu")).diagnostics.figures["lam"] == 1.0


@pytest.mark.parametrize("centre", ["point", "variational"])
def test_transfer_is_centred_at_the_requested_weights(knowing_source, target, centre):
    posterior = fit(knowing_source, target, config(centre=centre), Fitting(0, device="cpu"))
    weights = knowing_source.params if centre == "point" else knowing_source.variational.mean
    assert torch.equal(posterior.theta_hat_1, layers_of(weights)[0])
