"""
Regression
==========

Ratings and measurements: instruments and people differ in offset and noise. Who or what measured is known in training
only.
"""

# %%
# Three instruments measure the same quantity. One is exact, one has an offset, and one is noisy.
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3, 3, size=900))
instrument = rng.integers(3, size=900)
offset = np.array([0.0, 1.0, 0.0])[instrument] * (x > 0)
noise = np.array([0.05, 0.05, 1.0])[instrument] * rng.normal(size=900)
y = np.sin(x) + offset + noise
privileged = pd.DataFrame({"instrument": np.array(["exact", "offset", "noisy"])[instrument]})

# %%
# `predict_given` says what an instrument would show; `predict` averages over instruments, because a new example comes
# without one.
import matplotlib.pyplot as plt

from lupi import PrivilegedRegressor

model = PrivilegedRegressor("tram", epochs=100, random_state=0).fit(x[:, None], y, privileged=privileged)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(x, y, ".", color="silver", markersize=3)
for name in ("exact", "offset", "noisy"):
    given = model.predict_given(x[:, None], pd.DataFrame({"instrument": [name] * len(x)}))
    axes.plot(x, given, label=f"given {name}")
axes.plot(x, model.predict(x[:, None]), "k--", label="without")
axes.legend()
plt.show()
