"""Triton kernels for MobileNet: batch norm with ReLU6, and depthwise convolutions.

Stacked replicas of a network have thousands of channels with few values each, for which torch's own kernels are slow.
Here a channel is a contiguous row of values, which one program processes. Triton comes with torch's CUDA builds and
needs a C compiler.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc, valid-type"


@triton.jit
def norm_forward(
    z, weight, bias, running_mean, running_variance, y, mean, variance, size, eps, momentum, BLOCK: tl.constexpr
):
    """Compute relu6(weight (z − mean)/√(variance + eps) + bias) for a row of z, and its mean and variance.

    Updates the running statistics; the running variance is the unbiased one.
    """
    row = tl.program_id(0)
    start, place = row.to(tl.int64) * size, tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, size, BLOCK):
        total += tl.load(z + start + first + place, mask=first + place < size, other=0.0)
    center = tl.sum(total) / size
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, size, BLOCK):
        inside = first + place < size
        apart = tl.load(z + start + first + place, mask=inside, other=0.0) - center
        total += tl.where(inside, apart * apart, 0.0)
    spread = tl.sum(total) / size
    scale = tl.load(weight + row) / tl.sqrt(spread + eps)
    shift = tl.load(bias + row) - center * scale
    for first in range(0, size, BLOCK):
        inside = first + place < size
        value = tl.load(z + start + first + place, mask=inside) * scale + shift
        tl.store(y + start + first + place, tl.minimum(tl.maximum(value, 0.0), 6.0), mask=inside)
    tl.store(mean + row, center)
    tl.store(variance + row, spread)
    before = tl.load(running_mean + row)
    tl.store(running_mean + row, before + momentum * (center - before))
    before = tl.load(running_variance + row)
    tl.store(running_variance + row, before + momentum * (spread * (size / (size - 1)) - before))


@triton.jit
def norm_backward(z, weight, bias, mean, variance, of_y, of_z, of_weight, of_bias, size, eps, BLOCK: tl.constexpr):
    """Compute the gradients of z, weight and bias."""
    row = tl.program_id(0)
    start, place = row.to(tl.int64) * size, tl.arange(0, BLOCK)
    center, factor, shift = tl.load(mean + row), tl.load(weight + row), tl.load(bias + row)
    inverse = 1 / tl.sqrt(tl.load(variance + row) + eps)
    sum_of, sum_with = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, size, BLOCK):
        inside = first + place < size
        normed = (tl.load(z + start + first + place, mask=inside, other=0.0) - center) * inverse
        grad = tl.load(of_y + start + first + place, mask=inside, other=0.0)
        value = normed * factor + shift
        grad = tl.where((value > 0) & (value < 6), grad, 0.0)
        sum_of += grad
        sum_with += grad * normed
    on_bias, on_weight = tl.sum(sum_of), tl.sum(sum_with)
    for first in range(0, size, BLOCK):
        inside = first + place < size
        normed = (tl.load(z + start + first + place, mask=inside, other=0.0) - center) * inverse
        grad = tl.load(of_y + start + first + place, mask=inside, other=0.0)
        value = normed * factor + shift
        grad = tl.where((value > 0) & (value < 6), grad, 0.0)
        result = factor * inverse * (grad - on_bias / size - normed * on_weight / size)
        tl.store(of_z + start + first + place, result, mask=inside)
    tl.store(of_weight + row, on_weight)
    tl.store(of_bias + row, on_bias)


@triton.jit
def depthwise_forward(x, weight, y, images, height, width, rows, columns, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Convolve a channel with a 3 × 3 filter; pad with zeros below and right and, for stride 1, above and left."""
    channel = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    size = images * rows * columns
    image, row, column = place // (rows * columns), place // columns % rows, place % columns
    source = x + channel.to(tl.int64) * images * height * width
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            r, c = row * STRIDE + i - 2 + STRIDE, column * STRIDE + j - 2 + STRIDE
            inside = (place < size) & (r >= 0) & (r < height) & (c >= 0) & (c < width)
            value = tl.load(source + (image * height + r) * width + c, mask=inside, other=0.0)
            total += value * tl.load(weight + channel * 9 + i * 3 + j)
    tl.store(y + channel.to(tl.int64) * size + place, total, mask=place < size)


@triton.jit
def depthwise_backward(
    of_y, weight, of_x, images, height, width, rows, columns, STRIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute the gradient of x."""
    channel = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    size = images * height * width
    image, row, column = place // (height * width), place // width % height, place % width
    source = of_y + channel.to(tl.int64) * images * rows * columns
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            r, c = row - i + 2 - STRIDE, column - j + 2 - STRIDE
            inside = (place < size) & (r >= 0) & (r % STRIDE == 0) & (c >= 0) & (c % STRIDE == 0)
            r, c = r // STRIDE, c // STRIDE
            inside = inside & (r < rows) & (c < columns)
            value = tl.load(source + (image * rows + r) * columns + c, mask=inside, other=0.0)
            total += value * tl.load(weight + channel * 9 + i * 3 + j)
    tl.store(of_x + channel.to(tl.int64) * size + place, total, mask=place < size)


@triton.jit
def depthwise_weight(
    x, of_y, of_weight, images, height, width, rows, columns, STRIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute the gradient of one row of a channel's filter."""
    channel, i, j = tl.program_id(0), tl.program_id(1), tl.arange(0, 4)
    source = x + channel.to(tl.int64) * images * height * width
    size = images * rows * columns
    total = tl.zeros([4, BLOCK], tl.float32)
    for first in range(0, size, BLOCK):
        place = first + tl.arange(0, BLOCK)
        image, row, column = place // (rows * columns), place // columns % rows, place % columns
        r = row * STRIDE + i - 2 + STRIDE
        c = column[None, :] * STRIDE + j[:, None] - 2 + STRIDE
        there = (place < size) & (r >= 0) & (r < height)
        inside = there[None, :] & (j < 3)[:, None] & (c >= 0) & (c < width)
        value = tl.load(source + ((image * height + r) * width)[None, :] + c, mask=inside, other=0.0)
        grad = tl.load(of_y + channel.to(tl.int64) * size + place, mask=place < size, other=0.0)
        total += value * grad[None, :]
    tl.store(of_weight + channel * 9 + i * 3 + j, tl.sum(total, 1), mask=j < 3)


def block_size(values: int, largest: int) -> int:
    """Return the number of values that a program handles at a time: a power of two."""
    return min(largest, 1 << (values - 1).bit_length())


def merge_replicas(batch: int, dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Merge the replicas, which vmap puts in the dimensions `dims`, into the dimension of the channels."""
    moved = [
        value.expand(batch, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(tensors, dims, strict=True)
    ]
    return [value.flatten(0, 1) for value in moved]


class NormReLU6(torch.autograd.Function):
    """Batch norm of z, [channels, ...], in training mode, followed by ReLU6.

    Also returns the mean and variance of each channel, and updates the running mean and variance in place, as
    `torch.nn.BatchNorm1d` does.
    """

    @staticmethod
    def forward(
        z: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, eps: float, momentum: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute y, the mean and the biased variance."""
        z = z.contiguous()
        channels, size = z.shape[0], z[0].numel()
        if size == 1:
            raise ValueError("Expected more than one value per channel for batch norm, but got one.")
        if not (running_mean.is_contiguous() and running_var.is_contiguous()):
            raise ValueError("Expected contiguous running statistics, since they are updated in place.")
        y, mean, variance = torch.empty_like(z), torch.empty_like(weight), torch.empty_like(weight)
        weight, bias = weight.contiguous(), bias.contiguous()
        with torch.cuda.device_of(z):  # Triton launches kernels on the current device
            outputs = (running_mean, running_var, y, mean, variance)
            norm_forward[(channels,)](z, weight, bias, *outputs, size, eps, momentum, block_size(size, 1024))
        return y, mean, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Save what `backward` needs."""
        z, weight, bias, _, _, ctx.eps, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # otherwise torch fills two tensors with zeros per layer
        ctx.save_for_backward(z, weight, bias, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of z, weight and bias."""
        if of_outputs[0] is None:
            return (None,) * 7
        z, weight, bias, mean, variance = (value.contiguous() for value in ctx.saved_tensors)
        size, of_y = z[0].numel(), of_outputs[0].contiguous()
        of_z, of_weight, of_bias = torch.empty_like(z), torch.empty_like(weight), torch.empty_like(bias)
        with torch.cuda.device_of(z):
            norm_backward[(z.shape[0],)](
                z, weight, bias, mean, variance, of_y, of_z, of_weight, of_bias, size, ctx.eps, block_size(size, 1024)
            )
        return of_z, of_weight, of_bias, None, None, None, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Apply the function to the channels of all replicas at once."""
        tensors, numbers = inputs[:5], inputs[5:]
        if dims[3:5] != (0, 0) or not all(value.is_contiguous() for value in tensors[3:]):
            raise RuntimeError("Expected stacked running statistics of the replicas, since they are updated in place.")
        results = NormReLU6.apply(*merge_replicas(info.batch_size, dims[:5], tensors), *numbers)
        return tuple(value.unflatten(0, (info.batch_size, -1)) for value in results), (0, 0, 0)


class Depthwise3x3(torch.autograd.Function):
    """A 3 × 3 convolution of each channel of x, [channels, images, height, width], padded as TensorFlow does."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: int) -> Tensor:
        """Compute y, [channels, images, height / stride, width / stride]."""
        x, weight = x.contiguous(), weight.contiguous()
        channels, images, height, width = x.shape
        rows, columns = height // stride, width // stride
        y = x.new_empty(channels, images, rows, columns)
        size = images * rows * columns
        per_program = block_size(size, 1024)
        grid = (channels, triton.cdiv(size, per_program))
        with torch.cuda.device_of(x):
            depthwise_forward[grid](x, weight, y, images, height, width, rows, columns, stride, per_program)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        """Save what `backward` needs."""
        x, weight, ctx.stride = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x and weight."""
        x, weight = (value.contiguous() for value in ctx.saved_tensors)
        of_y, (channels, images, height, width) = of_y.contiguous(), x.shape
        sizes = (images, height, width, *of_y.shape[2:])
        of_x, of_weight = torch.empty_like(x), torch.empty_like(weight)
        per_program = block_size(images * height * width, 1024)
        grid = (channels, triton.cdiv(images * height * width, per_program))
        with torch.cuda.device_of(x):
            depthwise_backward[grid](of_y, weight, of_x, *sizes, ctx.stride, per_program)
            depthwise_weight[(channels, 3)](x, of_y, of_weight, *sizes, ctx.stride, block_size(of_y[0].numel(), 512))
        return of_x, of_weight, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Apply the function to the channels of all replicas at once."""
        *tensors, stride = inputs
        y = Depthwise3x3.apply(*merge_replicas(info.batch_size, dims[:2], tuple(tensors)), stride)
        return y.unflatten(0, (info.batch_size, -1)), 0
