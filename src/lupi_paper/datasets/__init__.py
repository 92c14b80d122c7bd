"""Read the published data sets of the experiments.

Nothing is downloaded; the error for a missing file gives its address.
"""

from lupi_paper.datasets.cifar import load_cifar10
from lupi_paper.datasets.cifar10h import load_cifar10h
from lupi_paper.datasets.civil_comments import load_civil_comments
from lupi_paper.datasets.image_folder import load_image_folder
from lupi_paper.datasets.imagenet_pi import load_imagenet_pi

__all__ = [
    "load_cifar10",
    "load_cifar10h",
    "load_civil_comments",
    "load_image_folder",
    "load_imagenet_pi",
]
