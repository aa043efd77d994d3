r"""BTL-PCP-PE for NumPyro's NUTS: the joint density of weights, tau, sigma and c, and a chain.

The density is that of Abba (2023), section 2.3.3, non-centred:
theta_l = theta_hat_l + sqrt(tau c_l) z_l, over z, log tau, log sigma and w with c = softmax(w),
where w_l is the logarithm of a Gamma(c0, 1) variable. With `rows` "all" the first layer has all
inputs; with "row space" it has the coordinates in the row space of the training rows. Both give the
same posterior of the returned quantities; weights outside the row space are drawn from their normal
prior.

jax and numpyro are imported only when a chain is made.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.inference.network.scales import SIGMA_SHAPE
from bandgap.inference.network.whitened_network import row_space
from benchmarks.posterior_problem import Floats, PosteriorProblem, TestInputs, with_one

Rows = Literal["all", "row space"]
State = dict[str, Any]  # Keys: z1 ... z_L, log_tau, log_sigma, w.

MAX_TREE_DEPTH: Final = 7
BLOCK: Final = 5  # Transitions.
START_SPREAD: Final = 0.3  # Standard deviation of z at the start, as in bandgap.
ONE_THREAD: Final = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
# psi is a series of _TERMS terms below _MEETING, accurate in float32.
_MEETING = 0.5
_TERMS = 8


def check_numpyro() -> None:
    """Raise ConfigError if numpyro or jax is not installed."""
    try:
        import jax  # noqa: F401
        import numpyro  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"benchmark posterior: {error.name} is not installed. "
            'Install it with: pip install "bandgap[bench]".'
        ) from error


class NumpyroChain:
    """A chain of NumPyro's NUTS, alone in its process with one thread."""

    def __init__(
        self, problem: PosteriorProblem, *, seed: int, warmup: int, rows: Rows = "all"
    ) -> None:
        os.environ["XLA_FLAGS"] = ONE_THREAD
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["NPROC"] = "1"
        from jax import random
        from numpyro.infer import NUTS

        density = JointDensity(problem, rows)
        self._density = density
        self._warmup = warmup
        self._kernel = NUTS(potential_fn=lambda q: -density(q), max_tree_depth=MAX_TREE_DEPTH)
        self._state = self._kernel.init(
            random.key(seed), warmup, _start(problem, density, seed), (), {}
        )
        self._key = random.key(seed + 1)
        self._run = None

    def prepare(self) -> None:
        """Compile the function of a block."""
        import jax

        def block(state: Any, key: Any) -> Any:
            def step(carry: Any, key: Any) -> Any:
                after = self._kernel.sample(carry, (), {})
                return after, (self._density.quantities(after.z, key), after.num_steps)

            return jax.lax.scan(step, state, jax.random.split(key, BLOCK))

        self._run = jax.jit(block).lower(self._state, self._key).compile()

    def warm_up(self) -> None:
        """Run warm-up, to the end of a block."""
        while int(self._state.i) < self._warmup:
            self.block()

    def block(self) -> Floats:
        """Return the quantities of the next transitions (transition, quantity)."""
        import jax

        assert self._run is not None, "prepare comes first"
        self._key, key = jax.random.split(self._key)
        self._state, (rows, self.steps) = self._run(self._state, key)
        return np.asarray(rows, dtype=np.float64)


def make_chain(rows: Rows) -> Callable[..., NumpyroChain]:
    """Return a function that makes chains with these rows."""
    return partial(NumpyroChain, rows=rows)


class JointDensity:
    """The log density of a state, up to a constant, and its quantities."""

    def __init__(self, problem: PosteriorProblem, rows: Rows) -> None:
        import jax.numpy as jnp

        wide = with_one(problem.x)
        wide_test = with_one(problem.x_test)
        first = problem.theta_hat[0].astype(np.float64)
        test = TestInputs(wide_test @ first.T, wide_test, np.zeros((wide_test.shape[0], 0)))
        inputs = wide
        if rows == "row space":
            inputs = row_space(torch.from_numpy(wide)).coordinates.numpy()
            test = problem.test_inputs()
        self._inputs = jnp.asarray(inputs)
        self._base = jnp.asarray(wide @ first.T)
        self._y = jnp.asarray(problem.y)
        self._alpha = jnp.asarray(problem.alpha)
        self._test = tuple(map(jnp.asarray, (test.coordinates, test.base, test.outside)))
        self._upper = [jnp.asarray(layer) for layer in problem.theta_hat[1:]]
        self._lam = problem.lam
        self._noise_b = problem.noise_b
        self._c0 = problem.c0
        self.shapes = [
            (first.shape[0], inputs.shape[1]),
            *(layer.shape for layer in problem.theta_hat[1:]),
        ]

    def __call__(self, state: State) -> Any:
        """Return the log density."""
        import jax.numpy as jnp

        log_sigma = state["log_sigma"]
        w = state["w"]
        t, c, scales = self._scales(state)
        f = self._forward(state, scales, self._inputs, self._base)
        value = _pcp_log_density(t, self._alpha @ c, self._lam) + jnp.log(t)
        value += -2.0 * SIGMA_SHAPE * log_sigma - self._noise_b * jnp.exp(-2.0 * log_sigma)
        value += jnp.sum(self._c0 * w - jnp.exp(w)) - 0.5 * sum(
            jnp.sum(z**2) for z in self._z(state)
        )
        return (
            value
            - self._y.shape[0] * log_sigma
            - 0.5 * jnp.sum((self._y - f) ** 2) * jnp.exp(-2.0 * log_sigma)
        )

    def quantities(self, state: State, key: Any) -> Any:
        """Return log tau, log sigma, c and f at the test inputs.

        `key` draws weights outside the row space.
        """
        import jax
        import jax.numpy as jnp

        coordinates, base, outside = self._test
        _, c, scales = self._scales(state)
        noise = jax.random.normal(key, (outside.shape[1], base.shape[1]))
        f = self._forward(state, scales, coordinates, base + scales[0] * (outside @ noise))
        return jnp.concatenate([jnp.stack([state["log_tau"], state["log_sigma"]]), c, f])

    def _scales(self, state: State) -> tuple[Any, Any, Any]:
        """Return t = tau / sigma^2, c and sqrt(tau c)."""
        import jax
        import jax.numpy as jnp

        c = jax.nn.softmax(state["w"])
        t = jnp.exp(state["log_tau"] - 2.0 * state["log_sigma"])
        return t, c, jnp.exp(0.5 * (state["log_tau"] + jax.nn.log_softmax(state["w"])))

    def _forward(self, state: State, scales: Any, inputs: Any, base: Any) -> Any:
        import jax
        import jax.numpy as jnp

        first, *upper = self._z(state)
        pre = base + scales[0] * (inputs @ first.T)
        for layer, z, s in zip(self._upper, upper, scales[1:], strict=True):
            weights = layer + s * z
            pre = jax.nn.relu(pre) @ weights[:, :-1].T + weights[:, -1]
        return jnp.squeeze(pre, -1)

    def _z(self, state: State) -> list[Any]:
        return [state[f"z{i + 1}"] for i in range(len(self.shapes))]


def _pcp_log_density(t: Any, rates: Any, lam: float) -> Any:
    """Return log p(t) of the penalized-complexity prior without log(lam / 2).

    `rates` (n,) have equal weights.
    """
    import jax.numpy as jnp

    x = rates * t
    q = jnp.mean(rates**2 * _psi(x))
    m = jnp.mean(rates**2 / (1.0 + x))
    return -lam * t * jnp.sqrt(q) + jnp.log(m) - 0.5 * jnp.log(q)


def _psi(x: Any) -> Any:
    """Return (x - log(1 + x)) / x^2."""
    import jax.numpy as jnp

    low = jnp.minimum(x, _MEETING)
    high = jnp.maximum(x, _MEETING)
    r = low / (2.0 + low)
    series = sum(r ** (2 * k) / (2 * k + 3) for k in range(_TERMS))
    near = 1.0 / (2.0 + low) - 2.0 * r * series / (2.0 + low) ** 2
    return jnp.where(x <= _MEETING, near, (1.0 - jnp.log1p(high) / high) / high)


def _start(problem: PosteriorProblem, density: JointDensity, seed: int) -> State:
    """Return a start as in bandgap."""
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    log_sd = 0.5 * float(np.log(problem.y.var(ddof=1)))
    generator = torch.Generator().manual_seed(seed)
    prior = problem.scale_prior()
    state = prior.start(1, log_sd=log_sd, generator=generator)
    tau, c = prior.tau_and_weights(state[0])
    w = torch.log(c) + np.log(len(c) * problem.c0)  # The sum of exp(w) has its prior mean.
    z = {
        f"z{i + 1}": START_SPREAD * rng.normal(size=shape) for i, shape in enumerate(density.shapes)
    }
    scales = {
        "log_tau": torch.log(tau).numpy(),
        "log_sigma": prior.log_sigma(state[0]).numpy(),
        "w": w.numpy(),
    }
    return {name: jnp.asarray(value, dtype=jnp.float32) for name, value in (z | scales).items()}
