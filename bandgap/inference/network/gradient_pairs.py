"""Gradients of f at the training inputs by the whitened weights, as the two factors that they are made of."""

from torch import Tensor

from bandgap.inference.network.scales import Scales
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork, hidden_features, integrate_output
from bandgap.inference.soft_rectifier import through_relu


def gradient_pairs(net: WhitenedNetwork, z: Layers, scales: Scales) -> list[tuple[Tensor, Tensor]]:
    """Return g (chain n, out) and h (chain n, in) of every sampled layer, d f / d z_l = sigma g h' for each row."""
    dtype = z[0].dtype
    hidden = hidden_features(net, z, scales)
    output = integrate_output(net, hidden, scales)
    in_noise = (scales.s / scales.sigma[:, None]).to(dtype)[:, :, None, None]
    s = scales.s.to(dtype)[:, :, None, None]
    weights = output.mean[:, None, :-1].to(dtype).expand(-1, net.n_rows, -1)
    g = through_relu(weights, hidden.features)
    pairs: list[tuple[Tensor, Tensor]] = []
    for layer in range(net.n_layers - 2, -1, -1):
        h = hidden.inputs[layer].expand(g.shape[0], -1, -1)
        pairs.insert(0, ((in_noise[:, layer] * g).flatten(0, 1), h.flatten(0, 1)))
        if layer:
            weight = net.weights(layer, s[:, layer], z[layer])
            g = through_relu(g @ weight[:, :, :-1], hidden.inputs[layer])
    return pairs
