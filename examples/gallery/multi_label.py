"""
Several labels per example
==========================

A text may be both rude and off topic. Pass y with one column of 0 and 1 per label.
"""

# %%
# Two annotators see every example. One is careful; the other misses half of what is there.
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
X, X_test = rng.normal(size=(500, 6)), rng.normal(size=(2000, 6))
weights = rng.normal(size=(6, 3))
truth, y_test = ((x @ weights > 0.5).astype(int) for x in (X, X_test))
example = np.arange(500).repeat(2)
careful = np.tile([True, False], 500)
seen = rng.random((1000, 3)) < np.where(careful, 0.95, 0.5)[:, None]
y = pd.DataFrame(truth[example] * seen, columns=["rude", "off topic", "spam"])
privileged = pd.DataFrame({"annotator": np.where(careful, "ann", "bob")})
seen_by = y.groupby(privileged["annotator"]).mean()
print(seen_by.round(2))

# %%
# Averaged over the annotators, too little is seen. A method with privileged information explains what is missing.
from lupi import PrivilegedClassifier

for method in ("no-pi", "pi-transition", "auto"):
    model = PrivilegedClassifier(method, epochs=20, random_state=0)
    model.fit(X[example], y, privileged=privileged, example=example)
    p = model.predict_proba(X_test)
    found = (p > 0.5)[y_test == 1].mean()
    print(f"{method:14} finds {found:.0%} of the labels, accuracy {((p > 0.5) == y_test).mean():.3f}")

# %%
# The share of texts with each label.
import matplotlib.pyplot as plt

shares = seen_by.T.assign(auto=(p > 0.5).mean(axis=0), truth=y_test.mean(axis=0))
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
shares.plot.bar(ax=axes, rot=0, ylabel="share of texts")
plt.show()
