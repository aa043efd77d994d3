r"""BTL-BNN: Bayesian transfer of all layers around the source's weights with scales that know nothing of the source.

Abba (2023), section 2.5: theta_l ~ N(theta_hat_l, tau_l I), tau_l ~ InvGamma(2, 1) independently, noise as in `bnn`.
What BTL-PCP adds to it is the prior of the scales. tau and c of its posterior are the sum of the tau_l and their
shares.
"""

from dataclasses import dataclass, field
from typing import Final

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.networks.perceptron import layer_gradient_norms, layers_of
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.bnn import sample_around
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method, Scales, TargetData
from bandgap.transfer.shared.sampled_network import rows_for_source, with_sensitivity


@dataclass(frozen=True)
class BtlBnnConfig(Scales):
    """Scales (`recalibration`), noise and sampler."""

    noise_share: float = 0.2
    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    def __post_init__(self) -> None:
        if not self.noise_share > 0:
            raise ConfigError(
                f"btl_bnn: noise_share = {self.noise_share}. Accepted: a number above 0."
            )


def fit(
    source: SourceModel,
    data: TargetData,
    config: BtlBnnConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> NetworkPosterior:
    """Sample all weights and scales given the target's training rows (features (n, p), gaps in eV)."""
    progress(Update("preparing the transfer"))
    rows = rows_for_source(source, data, **config.scales)
    posterior = sample_around(
        layers_of(source.params),
        rows,
        noise_b=rows.noise_b(config.noise_share),
        sampler=config.sampler,
        seed=seed,
        device=device,
        progress=progress,
        checkpoint=checkpoint,
    )
    return with_sensitivity(posterior, layer_gradient_norms(source.params, rows.x).mean(0))


METHOD: Final = Method(
    name="btl_bnn",
    family="all layers, Bayesian",
    standing="research",
    title="Bayesian transfer, uninformative scales",
    summary=(
        "Samples all layers around the source model. The scales of its prior do not depend on"
        " the source."
    ),
    duration="about 2 minutes for 200 crystals on 2 cores",
    cost=Cost(55, 110, sampler="auto"),
    config=BtlBnnConfig,
    fit=fit,
    resumable=fit,
    new_elements=True,
)
