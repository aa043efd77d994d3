"""Settings of BTL-PCP-PE."""

import pytest

from bandgap.errors import ConfigError
from bandgap.transfer.btl_pcp import BtlPcpConfig


@pytest.mark.parametrize("name", ["lam", "c0", "noise_share"])
def test_config_refuses_what_no_prior_can_have(name):
    with pytest.raises(ConfigError, match=rf"btl_pcp_pe: .*{name} = 0.*Accepted: numbers above 0"):
        BtlPcpConfig(**{name: 0})
