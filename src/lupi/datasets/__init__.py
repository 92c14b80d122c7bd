"""Data to try methods on: published crowd sets, digits, and simulated annotators for any labelled set.

`relabel` and `annotate` add simulated annotators to any labelled data set, as the paper does for ImageNet, and
`load_digits_annotated` is such a data set that needs no download. `load_crowd` reads labels of people.
"""

from lupi.datasets.digits import load_digits_annotated
from lupi.datasets.published import CrowdSet, load_crowd
from lupi.datasets.relabelling import Relabelled, annotate, relabel

__all__ = ["CrowdSet", "Relabelled", "annotate", "load_crowd", "load_digits_annotated", "relabel"]
