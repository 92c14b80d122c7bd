"""Data sets with privileged information.

`relabel` and `annotate` make one of any labelled set, by the paper's ImageNet procedure;
`load_digits_annotated` is one that needs no download.
"""

from lupi.datasets.digits import AnnotatedDigits, load_digits_annotated
from lupi.datasets.relabel import MALICIOUS, Annotator, Relabelled, annotate, relabel

__all__ = [
    "MALICIOUS",
    "AnnotatedDigits",
    "Annotator",
    "Relabelled",
    "annotate",
    "load_digits_annotated",
    "relabel",
]
