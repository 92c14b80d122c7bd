"""MobileNet v1: a small trunk for images, with a memory layout in which many replicas train fast together.

Howard et al., "MobileNets: Efficient convolutional neural networks for mobile vision applications" (2017),
https://arxiv.org/abs/1704.04861. Padding is TensorFlow's, as in the published weights.

Activations are [channels, images, height, width]. A pointwise convolution is then one matrix product, batch norm reads
contiguous rows, and a depthwise convolution sees the images stacked into one tall image, separated by zeros.
`torch.func.vmap` prepends the replicas to the channels, so nothing is copied or transposed. On a GPU, Triton kernels
(`lupi_paper.mobilenet.kernels`) replace the operations that are slow there.
"""

import zipfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

WIDTHS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
STRIDED = (2, 4, 6, 12)
"""Blocks, counted from 1, that halve height and width, as the first convolution does."""
FIRST = 32


class Pointwise(nn.Module):
    """A 1 × 1 convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map [inputs, n, H, W] to [outputs, n, H, W]."""
        return (self.weight @ x.flatten(1)).reshape(-1, *x.shape[1:])


class FirstConvolution(Pointwise):
    """A 3 × 3 convolution with stride 2 over all channels, computed as a pointwise convolution of patches."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(9 * inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [inputs, n, H, W] to [outputs, n, H/2, W/2]."""
        height, width = x.shape[2:]
        x = F.pad(x, (0, 1, 0, 1))
        patches = [x[:, :, i : i + height : 2, j : j + width : 2] for i in range(3) for j in range(3)]
        return super().forward(torch.cat(patches))


class Depthwise(nn.Module):
    """A 3 × 3 depthwise convolution, applied to each channel separately."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, 3, 3))
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map [C, n, H, W] to [C, n, H/stride, W/stride]."""
        if (kernels := kernels_for(x)) is not None:
            return kernels.Depthwise3x3.apply(x, self.weight, self.stride)  # type: ignore[no-any-return]
        channels, images, height, _ = x.shape
        if self.stride == 1:  # a row of zeros below each image, which is also above the next one
            x = F.pad(x, (0, 0, 0, 1))
            padding, rows = (1, 1), slice(0, height)
        else:  # zeros on the right and below, and above, so that windows start at an image's first row
            x = F.pad(x, (0, 1, 1, 1))
            padding, rows = (1, 0), slice(1, height // 2 + 1)
        tall = x.flatten(1, 2).unsqueeze(0)
        y = F.conv2d(tall, self.weight, stride=self.stride, padding=padding, groups=channels)
        return y.reshape(channels, images, -1, y.shape[3])[:, :, rows]


class Layer(nn.Module):
    """A convolution, batch norm and ReLU6."""

    def __init__(self, convolution: Pointwise | Depthwise, momentum: float) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = nn.BatchNorm1d(convolution.weight.shape[0], eps=1e-3, momentum=momentum)

    def forward(self, x: Tensor) -> Tensor:
        """Map [inputs, n, H, W] to [outputs, n, H', W']."""
        y = self.convolution(x)
        if self.norm.training and (kernels := kernels_for(y)) is not None:
            norm = self.norm  # `num_batches_tracked` is not updated: a fixed momentum does not read it
            arguments = (norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps, norm.momentum)
            return kernels.NormReLU6.apply(y, *arguments)[0]  # type: ignore[no-any-return]
        return F.relu6(self.norm(y.flatten(1).unsqueeze(0))).reshape(y.shape)


class MobileNet(nn.Module):
    """Map images [n, 3, height, width] with values from 0 to 255 to features [n, 1024 · width].

    Parameters
    ----------
    width : float
        Factor that multiplies the number of channels of every layer.
    momentum : float
        Weight of a batch in the running statistics; 0.01 in Keras. With 0 the statistics are fixed, and are used in
        training too.

    Attributes
    ----------
    features : int
        Width of the output.

    Examples
    --------
    >>> MobileNet(width=0.25).eval()(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 256])
    """

    def __init__(self, width: float = 1.0, *, momentum: float = 0.1) -> None:
        super().__init__()
        channels = max(8, int(FIRST * width))
        self.layers = nn.Sequential(Layer(FirstConvolution(3, channels), momentum))
        for number, full in enumerate(WIDTHS, 1):
            outputs = max(8, int(full * width))
            self.layers.append(Layer(Depthwise(channels, 2 if number in STRIDED else 1), momentum))
            self.layers.append(Layer(Pointwise(channels, outputs), momentum))
            channels = outputs
        self.features = channels
        for layer in self.list_layers():
            weight = layer.convolution.weight
            nn.init.normal_(weight, std=(2 / weight[0].numel()) ** 0.5)

    def list_layers(self) -> list[Layer]:
        """List the layers, from input to output."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode; with fixed statistics, batch norm stays in evaluation mode."""
        super().train(mode)
        for layer in self.list_layers():
            layer.norm.train(mode and layer.norm.momentum != 0)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, averaged over height and width."""
        if x.shape[2] % 32 or x.shape[3] % 32:
            raise ValueError(
                f"Expected height and width of images to be multiples of 32, but got {x.shape[2]} × {x.shape[3]}."
            )
        if self.list_layers()[0].norm.training and x.shape[0] * x.shape[2] * x.shape[3] == 32 * 32:
            raise ValueError("Expected more than one 32 × 32 image per batch for batch norm, but got one.")
        y: Tensor = self.layers(scale_images(x, self.list_layers()[0].norm.weight.dtype))
        return y.mean((2, 3)).mT

    @classmethod
    def from_npz(cls, path: str | Path, images: Tensor, *, momentum: float = 0.1) -> Self:
        """Load published weights, in which batch norm is folded into the convolutions, and restore batch norm.

        Parameters
        ----------
        path : str or Path
            An .npz file with the arrays `Conv2d_0/weight` (output, height, width, input) and `Conv2d_0/bias`,
            `Conv2d_1_depthwise/...` (1, height, width, channel), `Conv2d_1_pointwise/...`, and so on to 13, of any
            width.
        images : Tensor
            Images from which the statistics of batch norm are computed, so that batch norm is the identity on them.
        momentum : float
            As for the class.

        Returns
        -------
        MobileNet
            The network with these weights.
        """
        names = ["Conv2d_0", *(f"Conv2d_{i}_{kind}" for i in range(1, 14) for kind in ("depthwise", "pointwise"))]
        arrays = read_arrays(path)
        with torch.no_grad():
            missing = [name for name in names if f"{name}/weight" not in arrays or f"{name}/bias" not in arrays]
            if missing:
                raise ValueError(f"Expected {path} to contain MobileNet's weights, but {missing[0]} is missing.")
            net, y = cls(len(arrays["Conv2d_0/bias"]) / FIRST, momentum=momentum), scale_images(images, torch.float32)
            for name, layer in zip(names, net.list_layers(), strict=True):
                weight, bias = (torch.from_numpy(arrays[f"{name}/{part}"]) for part in ("weight", "bias"))
                own = layer.convolution.weight
                if weight.numel() != own.numel() or len(bias) != len(own):
                    raise ValueError(
                        f"Expected {name} of {path} to have {own.numel()} weights and {len(own)} biases, but got "
                        f"{weight.numel()} and {len(bias)}."
                    )
                own.copy_(weight.permute(3, 0, 1, 2) if isinstance(layer.convolution, Depthwise) else weight.flatten(1))
                y = layer.convolution(y)
                variance, mean = torch.var_mean(y.flatten(1), 1, correction=0)
                statistics = {"running_mean": mean, "running_var": variance}
                inverse = {"weight": (variance + layer.norm.eps).sqrt(), "bias": mean + bias}
                layer.norm.load_state_dict(statistics | inverse, strict=False)
                y = F.relu6(y + bias[:, None, None, None])
        return net


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file by name."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:  # the errors of numpy for other files
        raise ValueError(f"Expected {path} to be an .npz file, but it cannot be read.") from error


def kernels_for(x: Tensor) -> ModuleType | None:
    """Return the module of kernels if they apply to x: float32 on a GPU, in eager mode; None otherwise."""
    if not x.is_cuda or x.dtype != torch.float32 or torch.is_autocast_enabled("cuda") or torch.compiler.is_compiling():
        return None
    return import_kernels()


@cache
def import_kernels() -> ModuleType | None:
    """Import the kernels; return None without Triton."""
    try:
        from lupi_paper.mobilenet import kernels
    except ImportError:
        return None
    return kernels


def scale_images(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Scale values to [−1, 1] and put channels first."""
    return images.transpose(0, 1).to(dtype) / 127.5 - 1
