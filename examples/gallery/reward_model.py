"""
A reward model from preferences
===============================

Raters compare pairs of answers. Some are careful, some hurry, and some choose what they see first. Who compared, how
long it took and which answer was shown first are privileged information. What ships is a reward r(answer), with
P(a is preferred to b) = σ(r(a) − r(b)).
"""

# %%
# Every pair of answers is judged by two of nine raters.
import numpy as np
import pandas as pd
import torch

rng = np.random.default_rng(0)
answers = rng.normal(size=(400, 2, 6)).astype(np.float32)
quality = 1.5 * answers[..., 0] - answers[..., 1] + np.abs(answers[..., 2])
better = (quality[:, 0] > quality[:, 1]).astype(int)
pair = np.arange(400).repeat(2)
rater = rng.integers(9, size=800)
right = rng.random(800) < np.array([0.95, 0.75, 0.5])[rater // 3]
first = rng.integers(2, size=800)  # 1 if the first answer of the pair was shown first
preferred = np.where(right, better[pair], np.where(rater // 3 == 2, first, 1 - better[pair]))
seconds = rng.gamma(4, np.array([8.0, 2.5, 1.0])[rater // 3])
privileged = pd.DataFrame({"rater": rater.astype(str), "first": first, "seconds": seconds})

# %%
# `Pairwise` makes a trunk for pairs from a trunk for answers. Swapping two answers swaps the prediction.
from lupi import PrivilegedClassifier
from lupi.nn import MLP, Pairwise, extract_reward

torch.manual_seed(0)
model = PrivilegedClassifier("auto", trunk=Pairwise(MLP(6, (32,))), annotator="rater", epochs=20, random_state=0)
model.fit(answers[pair], preferred, privileged=privileged, example=pair)

# %%
# The reward is a plain torch module of one answer. On new answers, it follows the quality that raters saw with noise.
import matplotlib.pyplot as plt

new = rng.normal(size=(500, 6)).astype(np.float32)
with torch.no_grad():
    reward = extract_reward(model.predictor_)(torch.from_numpy(new))[:, 0].numpy()
new_quality = 1.5 * new[:, 0] - new[:, 1] + np.abs(new[:, 2])
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
axes.plot(new_quality, reward, ".", alpha=0.5)
axes.set(xlabel="quality", ylabel="reward", title=f"correlation {np.corrcoef(new_quality, reward)[0, 1]:.2f}")
plt.show()
