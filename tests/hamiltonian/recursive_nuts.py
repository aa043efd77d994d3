"""One NUTS trajectory of one chain by recursion, as Stan builds it.

This is an independent implementation of `nuts.py`, written from Betancourt (2017), appendix A, with
numpy and an analytic gradient. The random numbers are arguments, so that both implementations can
be compared trajectory by trajectory.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Leaf:
    q: np.ndarray
    p: np.ndarray
    energy: float


@dataclass
class Walk:
    """Inputs and counters of a trajectory."""

    value_and_gradient: object
    inverse_mass: np.ndarray
    step: float
    start_energy: float
    leaves: list = field(default_factory=list)  # of the current branch
    accept: float = 0.0
    n_steps: int = 0
    divergent: bool = False

    def leap(self, at, sign):
        e = sign * self.step
        p = at.p + 0.5 * e * self.value_and_gradient(at.q)[1]
        q = at.q + e * self.inverse_mass * p
        value, gradient = self.value_and_gradient(q)
        p = p + 0.5 * e * gradient
        leaf = Leaf(q, p, 0.5 * float((p**2 * self.inverse_mass).sum()) - value)
        error = leaf.energy - self.start_energy
        self.n_steps += 1
        if not error < 1000.0:
            self.divergent = True
            return None
        self.accept += min(1.0, float(np.exp(-error)))
        self.leaves.append(leaf)
        return leaf

    def build(self, at, depth, sign):
        """Return the 2^depth states of a branch from `at` on, or None if it ended early."""
        if depth == 0:
            leaf = self.leap(at, sign)
            return None if leaf is None else [leaf]
        inner = self.build(at, depth - 1, sign)
        if inner is None:
            return None
        outer = self.build(inner[-1], depth - 1, sign)
        if outer is None:
            return None
        return None if self.turns(inner, outer) else inner + outer

    def turns(self, inner, outer):
        """Whether both parts together turn, or either with the adjacent state of the other."""
        pieces = (inner + outer, [*inner, outer[0]], [inner[-1], *outer])
        return any(self.turned(piece) for piece in pieces)

    def turned(self, states):
        rho = self.inverse_mass * sum(state.p for state in states)
        return float(states[0].p @ rho) <= 0 or float(states[-1].p @ rho) <= 0


def transition(
    value_and_gradient, q, *, momentum, step, inverse_mass, max_depth, directions, leaves, choices
):
    """Return (q, energy, mean acceptance, divergent, depth, number of steps).

    `directions[k]` and `choices[k]` are the uniform numbers of doubling k, `leaves[k]` those of
    its 2^k states.
    """
    start = Leaf(
        q, momentum, 0.5 * float((momentum**2 * inverse_mass).sum()) - value_and_gradient(q)[0]
    )
    walk = Walk(value_and_gradient, inverse_mass, step, start.energy)
    states = [start]
    selected = start
    weight = 0.0
    depth = 0
    while depth < max_depth:
        forward = directions[depth] < 0.5
        walk.leaves = []
        branch = walk.build(states[-1] if forward else states[0], depth, 1 if forward else -1)
        if branch is None:
            break
        candidate = None
        total = -np.inf
        for leaf, number in zip(branch, leaves[depth], strict=True):
            total = np.logaddexp(total, start.energy - leaf.energy)
            if number < np.exp(start.energy - leaf.energy - total):
                candidate = leaf
        if np.log(choices[depth]) < total - weight:
            selected = candidate
        weight = np.logaddexp(weight, total)
        turned = walk.turns(states, branch) if forward else walk.turns(states[::-1], branch)
        states = states + branch if forward else branch[::-1] + states
        depth += 1
        if turned:
            break
    return (
        selected.q,
        selected.energy,
        walk.accept / walk.n_steps,
        walk.divergent,
        depth,
        walk.n_steps,
    )
