"""MobileNet v1, and the kernels that train many of them at once."""

from lupi.nn.mobilenet.network import MobileNet

__all__ = ["MobileNet"]
