"""
Serve with ONNX
===============

A trained model is a network of the inputs alone. `export_onnx` writes it as a file that needs only onnxruntime. Needs
the extra `export`.
"""

# %%
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from lupi import PrivilegedClassifier
from lupi.datasets import load_digits_annotated

digits = load_digits_annotated()
model = PrivilegedClassifier("tram", epochs=10, random_state=0)
model.fit(digits.X_train, digits.y_train, privileged=digits.privileged)

# %%
# The session returns what `predict_proba` returns, and knows nothing about annotators.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.onnx")
    model.export_onnx(path)
    print(f"{path.stat().st_size / 1000:.0f} kB")
    session = onnxruntime.InferenceSession(path)
    (entry,) = session.get_inputs()
    *_, probabilities = session.run(None, {entry.name: digits.X_test.astype(np.float64)})
print(f"largest difference: {np.abs(probabilities - model.predict_proba(digits.X_test)).max():.0e}")
