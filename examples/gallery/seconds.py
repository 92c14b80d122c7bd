"""
Seconds as privileged information
=================================

Hasty labels are wrong more often. How long a label took is not known for a new example, so it cannot be an input of
the model, but it can tell the model which labels to believe.
"""

# %%
# 2000 labels. A label that took less than three seconds is a guess in most cases.
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
X, X_test = rng.normal(size=(2000, 8)), rng.normal(size=(5000, 8))
truth, y_test = ((x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int) for x in (X, X_test))
seconds = rng.gamma(2, 3, size=len(X))
guess = rng.random(len(X)) < np.where(seconds < 3, 0.9, 0.05)
y = np.where(guess, rng.integers(2, size=len(X)), truth)
privileged = pd.DataFrame({"seconds": seconds})
print(f"{(y != truth).mean():.0%} of the labels are wrong")

# %%
# Is the column worth having? `estimate_information` measures, without true labels, how much it tells about the label
# beyond the inputs.
from lupi.diagnose import estimate_information

gain = estimate_information(X, y, privileged, folds=2, parameters={"epochs": 10})
print(f"{gain.estimate:.3f} nats [{gain.low:.3f}, {gain.high:.3f}]")

# %%
# A conditional head shows what the network has learned about seconds: how sure it is of a label that took so long.
import matplotlib.pyplot as plt

from lupi import PrivilegedClassifier

tram = PrivilegedClassifier("tram", epochs=10, random_state=0).fit(X, y, privileged=privileged)
grid = np.linspace(0.5, 15, 30)
sure = [tram.predict_proba_given(X, privileged.assign(seconds=value)).max(axis=1).mean() for value in grid]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(grid, sure)
axes.set(xlabel="seconds", ylabel="mean probability", title="How sure the conditional head is of a label")
plt.show()

# %%
# The model that ships takes no seconds.
for method in ("no-pi", "auto"):
    model = PrivilegedClassifier(method, epochs=10, random_state=0).fit(X, y, privileged=privileged)
    print(f"{method:6} accuracy on true labels: {model.score(X_test, y_test):.3f}")
