"""
Labels from a crowd
===================

Seventeen annotators label handwritten digits, three labels per digit. Some are good, some are poor, and one answers at
random. Who gave a label, and how sure they were, is known in training only: it is privileged information.
"""

# %%
# One row per label. More than a third of the labels are wrong, but the true labels are used only to score.
from lupi.datasets import load_digits_annotated

digits = load_digits_annotated(annotations=3)
print(digits.privileged.head(3))
print(f"{(digits.y_train != digits.gold_train).mean():.0%} of {len(digits.y_train)} labels are wrong")

# %%
# Train without privileged information, with TRAM, and with the default, `auto`. No model needs it to predict.
from lupi import PrivilegedClassifier

for method in ("no-pi", "tram", "auto"):
    model = PrivilegedClassifier(method, epochs=30, random_state=0)
    model.fit(digits.X_train, digits.y_train, privileged=digits.privileged, example=digits.example)
    print(f"{method:6} accuracy on true labels: {model.score(digits.X_test, digits.y_test):.3f}")

# %%
# The labels alone tell good annotators from bad ones.
import matplotlib.pyplot as plt
import pandas as pd

from lupi.crowd import aggregate

right = pd.Series(digits.y_train == digits.gold_train)
annotator = digits.privileged["annotator"].astype(str)
table = pd.DataFrame({"example": digits.example, "annotator": annotator, "label": digits.y_train})
found = aggregate(table).annotators.set_index("annotator")
true = right.groupby(annotator).mean()[found.index]

figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
axes.hlines(found.index, found["low"], found["high"], color="silver", linewidth=5, label="estimate, 95 % interval")
axes.plot(found["reliability"], found.index, "o", label="estimate")
axes.plot(true, found.index, "x", color="black", label="truth")
axes.set(xlabel="share of labels that are right")
axes.legend()
plt.show()
