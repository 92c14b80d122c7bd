"""Kernels for a GPU: batch norm with relu6, and depthwise convolutions, of very many channels at once; small layers.

Replicas of a network put all of their channels side by side, thousands of them with few numbers each, for which the
kernels that torch brings are slow. Here a channel is one contiguous row of numbers, and one program looks after it.
All gradients of a small linear layer, and that of its ReLU, are one kernel. Needs Triton, which torch brings where it
is built for CUDA, and which needs a C compiler.
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

    The running statistics move towards them; the running variance is that of the population.
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
    """Gradients of z, weight and bias from that of y."""
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
    """A 3 × 3 convolution of a channel; zeros pad one row and column after, and before for stride 1."""
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
    """Gradient of x from that of y."""
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
    """Gradient of a row of a channel's weights."""
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


@triton.jit
def tile(x, row, column, rows, columns, step_of_row, step_of_column):
    """Load some rows and columns of a matrix; zeros outside of it."""
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    return tl.load(x + row[:, None] * step_of_row + column[None, :] * step_of_column, mask=inside, other=0.0)


@triton.jit
def linear_backward(
    x,
    x_row,
    x_input,
    weight,
    y,
    of_y,
    of_y_row,
    of_y_output,
    of_x,
    of_x_row,
    of_x_input,
    of_weight,
    of_bias,
    rows,
    inputs,
    outputs,
    tiles_of_x,
    RELU: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    """Gradients from that of y = x weightᵀ + bias, or relu of it: of x by the first programs, of the rest by others."""
    i, j = tl.program_id(0), tl.program_id(1)
    column = j * INPUTS + tl.arange(0, INPUTS)
    if i < tiles_of_x:
        row = i * ROWS + tl.arange(0, ROWS)
        on_x = tl.zeros([ROWS, INPUTS], tl.float32)
        for first in range(0, outputs, OUTPUTS):
            output = first + tl.arange(0, OUTPUTS)
            grad = tile(of_y, row, output, rows, outputs, of_y_row, of_y_output)
            if RELU:
                grad = tl.where(tile(y, row, output, rows, outputs, outputs, 1) <= 0, 0.0, grad)
            factor = tile(weight, output, column, outputs, inputs, inputs, 1)
            on_x = tl.dot(grad, factor, on_x, input_precision=PRECISION)
        inside = (row < rows)[:, None] & (column < inputs)[None, :]
        tl.store(of_x + row[:, None] * of_x_row + column[None, :] * of_x_input, on_x, mask=inside)
    else:
        output = (i - tiles_of_x) * OUTPUTS + tl.arange(0, OUTPUTS)
        on_weight, on_bias = tl.zeros([OUTPUTS, INPUTS], tl.float32), tl.zeros([OUTPUTS], tl.float32)
        for first in range(0, rows, ROWS):
            row = first + tl.arange(0, ROWS)
            grad = tile(of_y, row, output, rows, outputs, of_y_row, of_y_output)
            if RELU:
                grad = tl.where(tile(y, row, output, rows, outputs, outputs, 1) <= 0, 0.0, grad)
            value = tile(x, row, column, rows, inputs, x_row, x_input)
            on_weight = tl.dot(tl.trans(grad), value, on_weight, input_precision=PRECISION)
            on_bias += tl.sum(grad, 0)
        there = (output < outputs)[:, None] & (column < inputs)[None, :]
        tl.store(of_weight + output[:, None] * inputs + column[None, :], on_weight, mask=there)
        if j == 0:
            tl.store(of_bias + output, on_bias, mask=output < outputs)


def block(size: int, most: int) -> int:
    """Numbers that a program looks at together: a power of two."""
    return min(most, 1 << (size - 1).bit_length())


def together(batch: int, dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Put a batch of replicas, which vmap has along `dims`, before the channels and into one dimension with them."""
    moved = [
        value.expand(batch, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(tensors, dims, strict=True)
    ]
    return [value.flatten(0, 1) for value in moved]


class NormReLU6(torch.autograd.Function):
    """relu6 of batch norm of z, [channels, ...], in training; with it mean and variance of each channel.

    Running mean and variance move towards them, in place, as those of `torch.nn.BatchNorm1d` do.
    """

    @staticmethod
    def forward(
        z: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, eps: float, momentum: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute y, mean and variance (that of the sample, not of the population)."""
        z = z.contiguous()
        channels, size = z.shape[0], z[0].numel()
        if size == 1:
            raise ValueError("Expected more than one number in each channel for batch norm, but got one.")
        if not (running_mean.is_contiguous() and running_var.is_contiguous()):
            raise ValueError("Expected running statistics that are contiguous, since they are written in place.")
        y, mean, variance = torch.empty_like(z), torch.empty_like(weight), torch.empty_like(weight)
        weight, bias = weight.contiguous(), bias.contiguous()
        with torch.cuda.device_of(z):  # Triton starts kernels on the current device
            norm_forward[(channels,)](
                z, weight, bias, running_mean, running_var, y, mean, variance, size, eps, momentum, block(size, 1024)
            )
        return y, mean, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what the gradient needs."""
        z, weight, bias, _, _, ctx.eps, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # zeros for what has no gradient are two kernels a layer
        ctx.save_for_backward(z, weight, bias, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of z, weight and bias."""
        if of_outputs[0] is None:
            return (None,) * 7
        z, weight, bias, mean, variance = (value.contiguous() for value in ctx.saved_tensors)
        size, of_y = z[0].numel(), of_outputs[0].contiguous()
        of_z, of_weight, of_bias = torch.empty_like(z), torch.empty_like(weight), torch.empty_like(bias)
        with torch.cuda.device_of(z):
            norm_backward[(z.shape[0],)](
                z, weight, bias, mean, variance, of_y, of_z, of_weight, of_bias, size, ctx.eps, block(size, 1024)
            )
        return of_z, of_weight, of_bias, None, None, None, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Treat the channels of all replicas as channels."""
        tensors, numbers = inputs[:5], inputs[5:]
        if dims[3:5] != (0, 0) or not all(value.is_contiguous() for value in tensors[3:]):
            raise RuntimeError("Expected running statistics of each replica, stacked: a copy would take the new ones.")
        results = NormReLU6.apply(*together(info.batch_size, dims[:5], tensors), *numbers)
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
        many = block(size, 1024)
        grid = (channels, triton.cdiv(size, many))
        with torch.cuda.device_of(x):
            depthwise_forward[grid](x, weight, y, images, height, width, rows, columns, stride, many)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        """Keep what the gradient needs."""
        x, weight, ctx.stride = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x and weight."""
        x, weight = (value.contiguous() for value in ctx.saved_tensors)
        of_y, (channels, images, height, width) = of_y.contiguous(), x.shape
        sizes = (images, height, width, *of_y.shape[2:])
        of_x, of_weight = torch.empty_like(x), torch.empty_like(weight)
        many = block(images * height * width, 1024)
        grid = (channels, triton.cdiv(images * height * width, many))
        with torch.cuda.device_of(x):
            depthwise_backward[grid](of_y, weight, of_x, *sizes, ctx.stride, many)
            depthwise_weight[(channels, 3)](x, of_y, of_weight, *sizes, ctx.stride, block(of_y[0].numel(), 512))
        return of_x, of_weight, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Treat the channels of all replicas as channels."""
        *tensors, stride = inputs
        y = Depthwise3x3.apply(*together(info.batch_size, dims[:2], tuple(tensors)), stride)
        return y.unflatten(0, (info.batch_size, -1)), 0


class SmallLinear(torch.autograd.Function):
    """x weightᵀ + bias, or relu of it, for x [rows, inputs]; all gradients at once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        """Compute y as torch does, the ReLU with it."""
        y = torch._addmm_activation(bias, x, weight.T) if relu else torch.addmm(bias, x, weight.T)
        ctx.relu = relu
        ctx.save_for_backward(x, weight, y if relu else None)
        return y

    @staticmethod
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, where it needs one, and of weight and bias."""
        x, weight, y = ctx.saved_tensors
        if torch.is_grad_enabled():  # they are to be differentiated again
            of_y = of_y if y is None else torch.where(y <= 0, 0.0, of_y)
            return of_y @ weight, of_y.T @ x, of_y.sum(0), None
        weight, (rows, inputs), outputs = weight.contiguous(), x.shape, weight.shape[0]
        of_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        of_weight, of_bias = torch.empty_like(weight), weight.new_empty(outputs)
        sizes = max(16, block(rows, 64)), 32, max(16, block(outputs, 64))  # a product of tiles takes 16 at least
        tiles_of_x = 0 if of_x is None else triton.cdiv(rows, sizes[0])
        precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
        into = x if of_x is None else of_x  # which is not written to
        with torch.cuda.device_of(x):
            linear_backward[(tiles_of_x + triton.cdiv(outputs, sizes[2]), triton.cdiv(max(1, inputs), sizes[1]))](
                *(x, *x.stride(), weight, of_y if y is None else y, of_y, *of_y.stride(), into, *into.stride()),
                *(of_weight, of_bias, rows, inputs, outputs, tiles_of_x, ctx.relu, precision, *sizes),
            )
        return of_x, of_weight, of_bias, None
