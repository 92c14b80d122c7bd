"""
Gradient boosting with label weights
====================================

What you know about labels also helps a model that is not ours. Out-of-fold predictions of the trees, and who gave each
label, say how probable it is that a label is right. The trees are trained again with this as `sample_weight`.
"""

# %%
# One label per digit, more than a third of them wrong. True labels score, and nothing else.
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from lupi.crowd import infer
from lupi.datasets import load_digits_annotated

digits = load_digits_annotated()
trees = HistGradientBoostingClassifier(max_iter=30, learning_rate=0.2, max_leaf_nodes=15, random_state=0)
p = cross_val_predict(trees, digits.X_train, digits.y_train, cv=3, method="predict_proba")
found = infer(p, digits.y_train, annotator=digits.privileged["annotator"].astype(str))
right = 1 - found.wrong

# %%
# The weights separate right from wrong labels well.
import matplotlib.pyplot as plt

truly_right = digits.y_train == digits.gold_train
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist([right[truly_right], right[~truly_right]], bins=20, stacked=True, label=["right", "wrong"])
axes.set(xlabel="estimated probability that the label is right", ylabel="labels")
axes.legend(title="in truth")
plt.show()

# %%
for name, weight in (("without", np.ones(len(right))), ("with", right)):
    trees.fit(digits.X_train, digits.y_train, sample_weight=weight)
    print(f"accuracy {name} weights: {trees.score(digits.X_test, digits.y_test):.3f}")

# %%
# `python examples/label_weights.py` repeats this with ten seeds.
