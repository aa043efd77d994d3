"""Steps of Adam are those of torch's class."""

import torch

from bandgap.networks.adam import Adam


def test_steps_are_those_of_torchs_class() -> None:
    start = [torch.randn(3, 2, dtype=torch.float64), torch.randn(2, dtype=torch.float64)]
    ours, theirs = ([p.clone().requires_grad_() for p in start] for _ in range(2))
    adam = Adam({1.0: ours[:1], 0.5: ours[1:]}, rate=0.1, eps=1e-7)
    peer = torch.optim.Adam(
        [{"params": theirs[:1], "lr": 0.1}, {"params": theirs[1:], "lr": 0.05}], eps=1e-7
    )
    for k in range(30):
        if k == 20:
            adam.rate *= 0.3
            for group in peer.param_groups:
                group["lr"] *= 0.3
        for optimiser, (a, b) in ((adam, ours), (peer, theirs)):
            optimiser.zero_grad()
            ((a**4).sum() + (a @ b).square().sum()).backward()
            optimiser.step()
    torch.testing.assert_close(ours, theirs)
    assert not torch.equal(ours[0], start[0])
