"""Names under which earlier versions stored the parts of posteriors. It goes with the release."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Plain = Mapping[str, Any]
Part = tuple[Arrays, Plain]

_LAYERS = range(1, 101)
_SCALES = {
    "x_mean": "standardiser.x_mean",
    "x_scale": "standardiser.x_scale",
    "y_mean_eV": "standardiser.y_mean_eV",
    "y_sd_eV": "standardiser.y_sd_eV",
    "x_power": "standardiser.power",
}
_NETWORK = {
    **_SCALES,
    "theta_hat.1": "theta_hat_1",
    "basis.1": "basis",
    "coordinates.1": "coordinates",
    "scale.1": "scale_1",
    "sd.1": "sd_1",
    "c": "layer_weights",
    **{f"theta.{layer + 1}": f"upper.{layer - 1}" for layer in _LAYERS},
}
_FACTORISED = {
    **_SCALES,
    "noise_shape": "noise.shape",
    "noise_rate": "noise.rate",
    **{f"mean.{layer}": f"weights.means.{layer - 1}" for layer in _LAYERS},
    **{f"variance.{layer}": f"weights.variances.{layer - 1}" for layer in _LAYERS},
}
_SOURCE_NETWORK = {
    **{old: name.replace("standardiser", "scales") for old, name in _SCALES.items()},
    **{f"param.weight.{layer}": f"params.weight.{layer}" for layer in _LAYERS},
    **{f"param.bias.{layer}": f"params.bias.{layer}" for layer in _LAYERS},
}
_OF_ROWS = {"n_features": "rows.n_features"}
_NAMES: Mapping[str, Mapping[str, str]] = {
    "network": _NETWORK,
    "scaled_network": _NETWORK,
    "factorised_network": _FACTORISED,
    "last_layer": _SCALES,
    "deep_kernel": _SCALES,
    "gaussian_process": _OF_ROWS,
    "parts_gp": _OF_ROWS,
    "laplacian": _OF_ROWS,
}


def with_names_of_today(arrays: Arrays, plain: Plain) -> Part:
    """Return the tensors and plain values of a posterior with the names that they have today."""
    kind = plain.get("kind", "network")
    if kind == "baseline" and "rest" in plain:
        residual = with_names_of_today(arrays, plain["rest"])
        values = {name: value for name, value in plain.items() if name != "rest"}
        return _under({"residual": residual}), {**values, "residual": residual[1]}
    if kind in ("mixture", "pool") and not _part("members", arrays):
        members = [
            with_names_of_today(_part(str(i), arrays), member)
            for i, member in enumerate(plain["members"])
        ]
        places = {f"members.{i}": member for i, member in enumerate(members)}
        return _under(places), {**plain, "members": [values for _, values in members]}
    if kind == "metals" and "n_features" in plain["classifier"]:
        inner = with_names_of_today(_part("semiconductors", arrays), plain["semiconductors"])
        classifier = _classifier(_part("classifier", arrays), plain["classifier"])
        places = {"semiconductors": inner, "classifier": classifier}
        return _under(places), {**plain, "semiconductors": inner[1], "classifier": classifier[1]}
    if kind == "conformal" and plain["models"]["kind"] == "laplacian":
        return arrays, {**plain, "models": _renamed({}, plain["models"], _OF_ROWS)[1]}
    if kind == "feature_gp" and _part("network", arrays):
        return _feature_gp(arrays, plain)
    return _renamed(arrays, plain, _NAMES.get(kind, {}))


def _feature_gp(arrays: Arrays, plain: Plain) -> Part:
    """Return the parts of a process on features; early ones had no levels and straight lines."""
    networks = [
        _renamed(_part(f"network.{i}", arrays), network, _SOURCE_NETWORK)
        for i, network in enumerate(plain["networks"])
    ]
    rows = {"levels": np.empty((len(arrays["inputs"]), 0))}
    rows |= {name: value for name, value in arrays.items() if not name.startswith("network.")}
    places = {f"networks.{i}": network for i, network in enumerate(networks)}
    values = {"saturates": False, **plain, "networks": [values for _, values in networks]}
    return {**rows, **_under(places)}, values


def _classifier(arrays: Arrays, plain: Plain) -> Part:
    """Return the parts of a classifier; one with a Gaussian process also has rows."""
    n_features = {"n_features": plain["n_features"]}
    values = {"n_rows": plain["n_rows"], "seed": plain["seed"], "trees": n_features}
    if "site_precision" not in arrays:
        return arrays, {"kind": "trees", **values}
    arrays = {name: value for name, value in arrays.items() if name != "is_metal"}
    return arrays, {"kind": "process", "rows": n_features, **values}


def _renamed(arrays: Arrays, plain: Plain, names: Mapping[str, str]) -> Part:
    nested: dict[str, Any] = {}
    for old, value in plain.items():
        *groups, name = names.get(old, old).split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return {names.get(name, name): value for name, value in arrays.items()}, nested


def _under(parts: Mapping[str, Part]) -> Arrays:
    """Return the tensors of all parts, with the place of each before their names."""
    return {
        f"{place}.{name}": value
        for place, (arrays, _) in parts.items()
        for name, value in arrays.items()
    }


def _part(place: str, arrays: Arrays) -> Arrays:
    return {
        name.removeprefix(f"{place}."): value
        for name, value in arrays.items()
        if name.startswith(f"{place}.")
    }
