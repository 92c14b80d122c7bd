"""
LLM judges
==========

Train a small model on the verdicts of LLM judges and a few people, and serve it without calling a judge. The judges are
simulated, so that the truth is known: three judges of two families label 600 answers, and people label 60 of them.
Judges of one family share a taste, such as a preference for long answers, which no majority vote removes.
"""

# %%
# A judge scores an answer by its quality, the taste of its family, and noise. The log-probability of its verdict is
# informative, but over-confident. Both are privileged: nobody knows them for a new answer without calling the judge.
import numpy as np
import pandas as pd
from scipy.special import expit

rng = np.random.default_rng(0)
X, X_test = rng.normal(size=(600, 10)), rng.normal(size=(4000, 10))
quality, quality_test = (1.2 * x[:, 0] - 0.8 * x[:, 1] + 0.8 * x[:, 2] * x[:, 3] for x in (X, X_test))
tables = []
for judge, taste, noise in [("alpha-large", 5, 0.6), ("alpha-small", 5, 1.2), ("beta", 6, 0.9)]:
    score = quality + 0.8 * np.tanh(X[:, taste]) + noise * rng.normal(size=len(X))
    verdict = pd.DataFrame({"answer": np.arange(len(X)), "judge": judge, "good": (score > 0).astype(int)})
    tables.append(verdict.assign(logprob=np.log(expit(3 * np.abs(score)))))
truth = (quality[:60] > 0).astype(int)
person = np.where(rng.random(60) < 0.95, truth, 1 - truth)
tables.append(pd.DataFrame({"answer": np.arange(60), "judge": "person", "good": person}))  # people have no logprob
labels = pd.concat(tables, ignore_index=True)
print(labels.groupby("judge")["good"].agg(["size", "mean"]).round(2))

# %%
# How sure a judge was, and how often it was right.
import matplotlib.pyplot as plt

right = labels["good"] == (quality > 0)[labels["answer"]]
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
for judge, sure in np.exp(labels["logprob"].dropna()).groupby(labels["judge"]):
    sixth = pd.qcut(sure, 6)
    axes.plot(sure.groupby(sixth, observed=True).mean(), right.groupby(sixth, observed=True).mean(), "o-", label=judge)
axes.plot([0.5, 1], [0.5, 1], "k--", label="as sure as right")
axes.set(xlabel="probability of the verdict", ylabel="share that is right")
axes.legend()
plt.show()

# %%
# Train with who judged, and how sure they were, as privileged information.
from lupi import PrivilegedClassifier

for method in ("no-pi", "majority-vote", "auto"):
    model = PrivilegedClassifier(method, epochs=20, random_state=0)
    privileged = labels[["judge", "logprob"]]
    model.fit(X[labels["answer"]], labels["good"], privileged=privileged, example=labels["answer"])
    print(f"{method:14} accuracy on the truth: {model.score(X_test, quality_test > 0):.3f}")

# %%
# The guide to LLM judges measures this over seeds, against asking the judges again.
