"""
Grades of a rating scale
========================

Stars have an order: raters who disagree are usually close, and some are strict. With `scale="ordinal"`, `predict`
returns the median grade, which has the lowest expected distance from the true one, and `auto` gives raters a bias and a
spread.
"""

# %%
# Twelve raters give one to five stars, two of them to each film. Some are strict, some lenient, some noisy.
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
X, X_test = rng.normal(size=(400, 6)), rng.normal(size=(2000, 6))
quality, quality_test = (3 + x[:, 0] + 0.7 * np.abs(x[:, 1]) - 0.5 * x[:, 2] for x in (X, X_test))
y_test = np.clip(np.round(quality_test), 1, 5).astype(int)
film = np.arange(400).repeat(2)
rater = np.concatenate([rng.permutation(12)[:2] for _ in range(400)])
bias, spread = rng.normal(size=12), rng.uniform(0.3, 1.5, size=12)
stars = np.clip(np.round(quality[film] + rng.normal(bias[rater], spread[rater])), 1, 5).astype(int)
privileged = pd.DataFrame({"rater": [f"rater {number}" for number in rater]})
print(f"{np.abs(stars - np.clip(np.round(quality[film]), 1, 5)).mean():.2f} stars between a rating and the true grade")

# %%
# The mean absolute error is measured in stars, against the true grades of new films.
from lupi import PrivilegedClassifier

for method, scale in (("no-pi", "nominal"), ("auto", "nominal"), ("auto", "ordinal"), ("no-pi", "ordinal")):
    model = PrivilegedClassifier(method, scale=scale, epochs=20, random_state=0)
    model.fit(X[film], stars, privileged=privileged, example=film)
    predicted = model.predict(X_test)
    error = np.abs(predicted - y_test).mean()
    print(f"{method:6} {scale:8} error {error:.3f} stars, accuracy {(predicted == y_test).mean():.3f}")

# %%
# The median is what helps here. Whether `auto` beats plain training depends on the raters: compare them on your data.
#
# What the last model expects of films of growing quality.
import matplotlib.pyplot as plt

order = np.argsort(quality_test)
p = model.predict_proba(X_test)[order].reshape(40, 50, -1).mean(axis=1)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
labels = [f"{grade} star{'s' if grade > 1 else ''}" for grade in model.classes_]
axes.stackplot(quality_test[order].reshape(40, 50).mean(axis=1), p.T, labels=labels)
axes.set(xlabel="quality of the film", ylabel="probability")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True)
plt.show()
