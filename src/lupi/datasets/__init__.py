"""Data to try methods on: simulated annotators for any labelled set, and digits relabelled by them.

`relabel` and `annotate` add simulated annotators to any labelled data set, as the paper does for ImageNet, and
`load_digits_annotated` is such a data set that needs no download.
"""

from lupi.datasets.digits import load_digits_annotated
from lupi.datasets.relabelling import Relabelled, annotate, relabel

__all__ = ["Relabelled", "annotate", "load_digits_annotated", "relabel"]
