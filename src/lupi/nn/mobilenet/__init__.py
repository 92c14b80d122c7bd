"""MobileNet v1, with Triton kernels that train many replicas at once."""

from lupi.nn.mobilenet.network import MobileNet

__all__ = ["MobileNet"]
