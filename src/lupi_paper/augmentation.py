"""Data augmentation for images, drawn for each image and computed for a whole batch on its device.

Images are [n, channels, height, width] with 8-bit integers or floating-point numbers, and keep their type.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RandomCrop(nn.Module):
    """Shift images by up to `padding` pixels in each direction, filling with zeros.

    Parameters
    ----------
    padding : int
        Maximum number of pixels.

    Examples
    --------
    >>> RandomCrop(4)(torch.ones(8, 3, 32, 32, dtype=torch.uint8)).shape
    torch.Size([8, 3, 32, 32])
    """

    def __init__(self, padding: int = 4) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        """Return the shifted images."""
        images, channels, height, width = x.shape
        padded = F.pad(x, 4 * [self.padding])
        shift = (torch.rand(2, images, 1, device=x.device) * (2 * self.padding + 1)).long()
        rows = shift[0] + torch.arange(height, device=x.device)  # [images, height]
        columns = shift[1] + torch.arange(width, device=x.device)
        image = torch.arange(images, device=x.device).reshape(-1, 1, 1, 1)
        channel = torch.arange(channels, device=x.device).reshape(-1, 1, 1)
        return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]

    def extra_repr(self) -> str:
        """Show the padding."""
        return f"padding={self.padding}"


class RandomFlip(nn.Module):
    """Flip half of the images horizontally, drawn at random."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the images, some of them flipped."""
        flipped = torch.rand(x.shape[0], 1, 1, 1, device=x.device) < 0.5
        return torch.where(flipped, x.flip(-1), x)


class RandomResizedCrop(nn.Module):
    """Crop a random part of every image and resize it with bilinear interpolation, as is usual for ImageNet.

    Parameters
    ----------
    size : int
        Height and width of the result.
    scale : (float, float)
        Smallest and largest area of the crop, as a share of the area of the image.
    ratio : (float, float)
        Smallest and largest aspect ratio (width to height) of the crop. Crops end at the edges of the image.

    Examples
    --------
    >>> RandomResizedCrop(24)(torch.zeros(8, 3, 32, 32, dtype=torch.uint8)).shape
    torch.Size([8, 3, 24, 24])
    """

    def __init__(
        self, size: int, scale: tuple[float, float] = (0.08, 1.0), ratio: tuple[float, float] = (3 / 4, 4 / 3)
    ) -> None:
        super().__init__()
        self.size, self.scale, self.ratio = size, scale, ratio

    def forward(self, x: Tensor) -> Tensor:
        """Return the resized crops."""
        images, channels, height, width = x.shape
        area, ratio, *place = torch.rand(4, images, device=x.device)
        area = self.scale[0] + area * (self.scale[1] - self.scale[0])
        low, high = (math.log(value) for value in self.ratio)
        ratio = torch.exp(low + ratio * (high - low)) * (height / width)
        # Extents as shares of the image, and centres from -1 to 1, horizontally and vertically.
        extents = [(area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)]
        centres = [(2 * one - 1) * (1 - extent) for one, extent in zip(place, extents, strict=True)]
        zero = torch.zeros_like(area)
        rows = [torch.stack([extents[0], zero, centres[0]], 1), torch.stack([zero, extents[1], centres[1]], 1)]
        grid = F.affine_grid(torch.stack(rows, 1), [images, channels, self.size, self.size], align_corners=False)
        parts = F.grid_sample(x.float(), grid, padding_mode="border", align_corners=False)
        return (parts if x.is_floating_point() else parts.round()).to(x.dtype)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"size={self.size}, scale={self.scale}, ratio={self.ratio}"
