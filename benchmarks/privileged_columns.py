"""What a privileged column adds to the posterior of true labels: ``python -m benchmarks.privileged_columns``.

Accuracy and NLL of the posterior against the true labels of the training digits, from out-of-fold No PI predictions,
with the annotator alone and with deciles of the stated probability as well. Mean over three seeds of data and training.
"""

import numpy as np
import pandas as pd

from lupi.crowd import infer
from lupi.datasets import load_digits_annotated
from lupi.diagnose import predict_out_of_fold


def score(p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return accuracy and NLL."""
    return float((p.argmax(1) == y).mean()), float(-np.log(p[np.arange(len(y)), y].clip(1e-7)).mean())


def main() -> None:
    """Print one line per set of columns."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(3):
        digits = load_digits_annotated(random_state=seed)
        p, _ = predict_out_of_fold(
            digits.X_train, digits.y_train, method="no-pi", random_state=seed, parameters={"epochs": 20}
        )
        deciles = pd.get_dummies(pd.qcut(digits.privileged["probability"], 10, duplicates="drop")).to_numpy(float)
        annotator = digits.privileged["annotator"].astype(str)
        for name, features in (("annotator", None), ("annotator and probability", deciles)):
            posterior = infer(p, digits.y_train, annotator=annotator, features=features).truth
            found.setdefault(name, []).append(score(posterior, digits.gold_train))
        found.setdefault("the predictions alone", []).append(score(p, digits.gold_train))
    for name, scores in found.items():
        accuracy, nll = np.mean(scores, axis=0)
        print(f"{name:26} {100 * accuracy:.1f} % {nll:.3f}")


if __name__ == "__main__":
    main()
