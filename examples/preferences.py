"""Which of two answers is better? A reward model from pairwise comparisons by raters of different reliability.

Every pair was judged by two of twelve raters: four are careful, four hurry, two answer at random, and two mostly choose
what they see first. The order in which a pair was shown, the rater and the seconds are privileged information. What
ships is a reward r(answer), with P(a is preferred to b) = σ(r(a) − r(b)).

>>> main(seeds=1, pairs=40, epochs=1)  # doctest: +ELLIPSIS
accuracy on true preferences, mean of 1 seed:
...
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from lupi import PrivilegedClassifier, crowd
from lupi.nn import MLP, Pairwise, extract_reward

RELIABILITY = np.array([0.95] * 4 + [0.75] * 4 + [0.5] * 2 + [0.95] * 2)
SECONDS = np.array([30.0] * 4 + [10.0] * 4 + [4.0] * 2 + [8.0] * 2)
FIRST = np.array([0.0] * 10 + [0.7] * 2)
"""How often a rater chooses whatever was shown first."""
FEATURES = 6
METHODS = ("no-pi", "majority-vote", "tram", "auto")

Array = NDArray[Any]


def quality(x: Array) -> Array:
    """Return how good answers are: what the reward model should find."""
    return np.asarray(1.5 * x[..., 0] - x[..., 1] + np.abs(x[..., 2]) + x[..., 3] * x[..., 4])


def compare_answers(rng: np.random.Generator, pairs: int) -> dict[str, Array]:
    """Draw pairs of answers, in the order of their ids, and what two raters say about each pair."""
    x = rng.normal(size=(pairs, 2, FEATURES)).astype(np.float32)
    better = (quality(x[:, 0]) > quality(x[:, 1])).astype(int)
    pair = np.arange(pairs).repeat(2)
    rater = np.stack([rng.permutation(len(RELIABILITY))[:2] for _ in range(pairs)]).ravel()
    close = np.exp(-np.abs(quality(x[:, 0]) - quality(x[:, 1])))[pair]  # close pairs are hard for everyone
    right = rng.random(2 * pairs) < RELIABILITY[rater] - (RELIABILITY[rater] - 0.5) * close
    first = rng.integers(2, size=2 * pairs)  # 1 if the first answer of the pair was shown first
    y = np.where(right, better[pair], 1 - better[pair])
    y = np.where(rng.random(2 * pairs) < FIRST[rater], first, y)
    seconds = rng.gamma(4, SECONDS[rater] / 4)
    return {"x": x, "better": better, "pair": pair, "rater": rater, "first": first, "seconds": seconds, "y": y}


def train(method: str, data: dict[str, Array], epochs: int, seed: int) -> PrivilegedClassifier:
    """Train on the labels of all raters, with what is known about each label as privileged information."""
    privileged = pd.DataFrame({"rater": data["rater"].astype(str), "first": data["first"], "seconds": data["seconds"]})
    torch.manual_seed(seed)  # for the initial weights of the trunk
    trunk = Pairwise(MLP(FEATURES, (32,)))
    model = PrivilegedClassifier(method, trunk=trunk, annotator="rater", epochs=epochs, random_state=seed)
    return model.fit(data["x"][data["pair"]], data["y"], privileged=privileged, example=data["pair"])


def find_reliability(data: dict[str, Array], epochs: int, seed: int) -> dict[int, float]:
    """Estimate, without true preferences, how often each rater is right: by models of the other half of the pairs."""
    half = data["pair"] % 2
    p = np.empty((len(half), 2))
    for part in (0, 1):
        others = {name: values[half != part] for name, values in data.items() if len(values) == len(half)}
        model = train("tram", data | others, epochs, seed)
        p[half == part] = model.predict_proba(data["x"][data["pair"][half == part]])
    found = crowd.infer(p, data["y"], example=data["pair"], annotator=data["rater"])
    return {int(name): float(found.right[data["rater"] == name].mean()) for name in found.names}


def main(seeds: int = 5, pairs: int = 500, epochs: int = 50) -> None:
    """Print the accuracy of each method, and the raters' reliability."""
    scores: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        data, test = compare_answers(rng, pairs), compare_answers(rng, 2000)
        for method in METHODS:
            model = train(method, data, epochs, seed)
            scores[method].append(model.score(test["x"], test["better"]))
    print(f"accuracy on true preferences, mean of {seeds} seed{'s' * (seeds > 1)}:")
    for method, values in scores.items():
        won = np.greater(values, scores["no-pi"]).sum()
        gain = np.mean(values) - np.mean(scores["no-pi"])
        against = "" if method == "no-pi" else f"  {gain:+.3f} against no-pi, better with {won} of {seeds}"
        print(f"  {method:13} {np.mean(values):.3f}{against}")

    swapped = model.predict_proba(test["x"][:, ::-1])
    print(f"P(a over b) + P(b over a) − 1: {np.abs(swapped + model.predict_proba(test['x']) - 1).max():.0e} at most")
    reward = extract_reward(model.predictor_)  # a plain module of one answer
    with torch.no_grad():
        values = reward(torch.from_numpy(test["x"][:, 0]))[:, 0].numpy()
    print(f"correlation of reward and quality: {np.corrcoef(values, quality(test['x'][:, 0]))[0, 1]:.2f}")
    print("how often each rater is right, estimated and true:")
    for rater, estimated in sorted(find_reliability(data, epochs, seed).items()):
        mine = data["rater"] == rater
        print(f"  rater {rater:2}  {estimated:.2f}  {(data['y'] == data['better'][data['pair']])[mine].mean():.2f}")


if __name__ == "__main__":
    main()
