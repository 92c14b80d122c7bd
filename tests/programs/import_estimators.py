"""Import an estimator, and print the optional packages that this imported."""

import sys

import lupi

assert lupi.PrivilegedClassifier
print([name for name in ("lightning", "onnx", "transformers") if name in sys.modules])
