"""Load data sets with privileged information.

`relabel` and `annotate` add simulated annotators to any labelled data set, as the paper does for ImageNet, and
`load_digits_annotated` is such a data set that needs no download. The other loaders read published files. None
downloads anything; the error for a missing file gives its address.
"""

from lupi.datasets.cifar import CIFAR, load_cifar10, load_cifar100
from lupi.datasets.cifar10h import CIFAR10H, load_cifar10h
from lupi.datasets.cifar_n import CIFARN, load_cifar10n, load_cifar100n
from lupi.datasets.civil_comments import CivilComments, load_civil_comments
from lupi.datasets.digits import AnnotatedDigits, load_digits_annotated
from lupi.datasets.image_folder import ImageFiles, ImageFolder, load_image_folder
from lupi.datasets.imagenet_pi import ImageNetPI, load_imagenet_pi
from lupi.datasets.relabelling import MALICIOUS, Relabelled, annotate, relabel

__all__ = [
    "CIFAR",
    "CIFAR10H",
    "CIFARN",
    "MALICIOUS",
    "AnnotatedDigits",
    "CivilComments",
    "ImageFiles",
    "ImageFolder",
    "ImageNetPI",
    "Relabelled",
    "annotate",
    "load_cifar10",
    "load_cifar10h",
    "load_cifar10n",
    "load_cifar100",
    "load_cifar100n",
    "load_civil_comments",
    "load_digits_annotated",
    "load_image_folder",
    "load_imagenet_pi",
    "relabel",
]
