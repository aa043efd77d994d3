"""Automatic and explicit settings of the network sampler."""

import pytest

from bandgap.inference.network.sampler_config import SamplerConfig


@pytest.mark.parametrize(
    ("isotropic", "coordinates", "warmup", "draws"),
    [(True, "partially centred", 200, 400), (False, "whitened", 300, 1500)],
)
def test_auto_follows_the_prior(isotropic: bool, coordinates: str, warmup: int, draws: int) -> None:
    planned = SamplerConfig().planned(isotropic=isotropic)
    assert (planned.coordinates, planned.n_warmup, planned.n_draws) == (coordinates, warmup, draws)


def test_explicit_coordinates_and_lengths_are_not_changed() -> None:
    for coordinates in ("whitened", "partially centred"):
        config = SamplerConfig(coordinates=coordinates, warmup=30, draws=50)
        planned = config.planned(isotropic=True)
        assert planned == config and (planned.n_warmup, planned.n_draws) == (30, 50)


@pytest.mark.parametrize("centred", [False, True])
def test_explicit_path_is_used_in_both_coordinates(centred: bool) -> None:
    config = SamplerConfig(angle=1.25, target_accept=0.9)
    assert (config.radians(centred=centred), config.acceptance(centred=centred)) == (1.25, 0.9)
