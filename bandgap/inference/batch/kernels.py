"""Gradients of many networks of one shape: three kernels with one interface.

Sample s has the first pre-activation a_1 = base + x C_s, hidden layers h_l = relu((h_(l-1), 1)
W_ls), a linear output f and the loss sum_b omega_sb (t_sb - f_sb)^2 / (4 B) over the B rows of a
mini-batch: half the squared error at mean weight 1 of rows and pseudo rows, whose omega has mean 2.
Samples share only their rows, so that the gradient of the sum of the losses is the gradient of
each.

- `vmap`: torch.func's vmap of grad of a plain forward pass; the reference.
- `bmm`: batched matrix products; every sample may have its own order of rows.
- `wide`: all samples of a fold use the same rows, so that the first layer is one product (B, r) (r,
  samples * width 1). Its weights are stored as (r, sample, width 1); other code has a view of them
  as (sample, r, width 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bandgap.inference.soft_rectifier import through_relu

KernelName = Literal["vmap", "bmm", "wide"]
Layers = list[Tensor]


@dataclass(frozen=True, eq=False)
class Stack:
    """Networks of one chunk during training: rows of G folds, weights of S samples sorted by fold.

    `weights[0]` is C (S, r, width 1), `weights[l]` layer l + 1 as (S, in + 1, out), the bias being
    the last input. `gradients` have the same shapes. `storage` and `gradient_storage` are the
    contiguous tensors behind both.
    """

    inputs: Tensor  # (G, n, r)
    base: Tensor  # (G, n, width 1)
    fold: Tensor  # (S,), sorted
    omega: Tensor  # (S, n)
    labels: Tensor  # (S, n)
    weights: Layers
    gradients: Layers
    storage: Layers
    gradient_storage: Layers
    fold_sizes: tuple[int, ...]  # samples of every fold, (G,)


Kernel = Callable[[Stack, Tensor], None]


def make_stack(
    inputs: Tensor,
    base: Tensor,
    *,
    fold: Tensor,
    omega: Tensor,
    labels: Tensor,
    upper: Sequence[Tensor],
    kernel: str,
) -> Stack:
    """Return a stack with C = 0 and copies of `upper`, (S, in + 1, out) each."""
    samples = fold.shape[0]
    r = inputs.shape[2]
    width = base.shape[2]
    wide = kernel == "wide"
    first = inputs.new_zeros((r, samples, width) if wide else (samples, r, width))
    storage = [first, *[layer.clone().contiguous() for layer in upper]]
    gradients = [torch.zeros_like(layer) for layer in storage]

    def views(layers: Layers) -> Layers:
        return [layers[0].transpose(0, 1) if wide else layers[0], *layers[1:]]

    sizes = tuple(int(size) for size in torch.bincount(fold, minlength=inputs.shape[0]))
    return Stack(
        inputs,
        base,
        fold,
        omega,
        labels,
        views(storage),
        views(gradients),
        storage,
        gradients,
        sizes,
    )


def kernel_of(name: KernelName) -> Kernel:
    """Return the function that writes `gradients` for the rows of a mini-batch.

    Rows are (S, B), the same for all samples where the kernel is `wide`.
    """
    kernels: dict[KernelName, Kernel] = {"vmap": _by_vmap, "bmm": _by_bmm, "wide": _by_wide}
    return kernels[name]


def outputs(inputs: Tensor, base: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Return f (S, n) of every sample.

    `inputs` are (n, r) or (S, n, r), `base` is (n, width 1) or (S, n, width 1).
    """
    pre = base + inputs @ weights[0]
    for layer in weights[1:]:
        pre = _rectified(pre) @ layer
    return pre.squeeze(-1)


def _gathered(stack: Stack, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return inputs (S, B, r), base (S, B, width 1), labels and omega (S, B) of rows (S, B)."""
    n = stack.inputs.shape[1]
    flat = stack.fold[:, None] * n + rows
    inputs = stack.inputs.flatten(0, 1)[flat]
    base = stack.base.flatten(0, 1)[flat]
    return inputs, base, stack.labels.gather(1, rows), stack.omega.gather(1, rows)


def _by_bmm(stack: Stack, rows: Tensor) -> None:
    inputs, base, labels, omega = _gathered(stack, rows)
    hidden = [_rectified(torch.baddbmm(base, inputs, stack.weights[0]))]
    slope = _through_upper(stack, hidden, labels, omega)
    torch.bmm(inputs.transpose(1, 2), through_relu(slope, hidden[0]), out=stack.gradients[0])


def _by_wide(stack: Stack, rows: Tensor) -> None:
    shared = rows[0]
    samples = stack.fold.shape[0]
    width = stack.base.shape[2]
    pre = stack.inputs.new_empty(shared.shape[0], samples, width)
    weights = stack.storage[0].flatten(1)
    gradients = stack.gradient_storage[0].flatten(1)
    first = 0
    ranges = []
    for fold, size in enumerate(stack.fold_sizes):
        columns = slice(first * width, (first + size) * width)
        ranges.append((stack.inputs[fold, shared], columns))
        pre[:, first : first + size] = stack.base[fold, shared][:, None]
        pre.flatten(1)[:, columns].addmm_(ranges[-1][0], weights[:, columns])
        first += size
    hidden = [_rectified(pre.transpose(0, 1))]
    slope = _through_upper(stack, hidden, stack.labels[:, shared], stack.omega[:, shared])
    slope = through_relu(slope, hidden[0]).transpose(0, 1).flatten(1)
    for inputs, columns in ranges:
        gradients[:, columns] = inputs.T @ slope[:, columns]


def _through_upper(stack: Stack, hidden: Layers, labels: Tensor, omega: Tensor) -> Tensor:
    """Write the gradients of all layers above the first.

    Returns the gradient by the output of the first layer, (S, B, width 1).
    """
    for layer in stack.weights[1:-1]:
        hidden.append(_rectified(torch.bmm(hidden[-1], layer)))
    f = torch.bmm(hidden[-1], stack.weights[-1])
    slope = ((f.squeeze(-1) - labels) * omega / (2 * labels.shape[1])).unsqueeze(-1)
    for level in range(len(hidden), 0, -1):
        torch.bmm(hidden[level - 1].transpose(1, 2), slope, out=stack.gradients[level])
        slope = torch.bmm(slope, stack.weights[level][:, :-1].transpose(1, 2))
        if level > 1:
            slope = through_relu(slope, hidden[level - 1])
    return slope


def _rectified(pre: Tensor) -> Tensor:
    """Return (relu(pre), 1), (..., in + 1)."""
    return torch.nn.functional.pad(pre, (0, 1), value=1.0).relu_()


def _by_vmap(stack: Stack, rows: Tensor) -> None:
    by_sample = torch.func.vmap(torch.func.grad(_loss))
    gradients = by_sample(tuple(stack.weights), *_gathered(stack, rows))
    for destination, gradient in zip(stack.gradients, gradients, strict=True):
        destination.copy_(gradient)


def _loss(
    weights: tuple[Tensor, ...], inputs: Tensor, base: Tensor, labels: Tensor, omega: Tensor
) -> Tensor:
    """Return the loss of one sample: inputs (B, r), base (B, width 1), labels and omega (B,)."""
    pre = base + inputs @ weights[0]
    for layer in weights[1:]:
        pre = torch.nn.functional.pad(torch.relu(pre), (0, 1), value=1.0) @ layer
    return (omega * (labels - pre.squeeze(-1)) ** 2).sum() / (4 * labels.shape[0])
