"""MobileNet v1, with Triton kernels that train many replicas at once."""

from lupi_paper.mobilenet.network import MobileNet

__all__ = ["MobileNet"]
