"""No PI trained on the true labels of the demo's digits: ``python -m benchmarks.digits_gold``.

The row "gold labels" beside ``lupi demo --seeds 10``: the same digits, splits and training, with right labels.
"""

from dataclasses import replace
from typing import Any

from lupi.compare import compare_methods
from lupi.datasets import load_digits_annotated

SEEDS, EPOCHS = 10, 50


def make_task(seed: int) -> Any:
    """Return the demo's digits of a seed with their true labels."""
    digits = load_digits_annotated(random_state=seed)
    return replace(digits, y_train=digits.gold_train)


if __name__ == "__main__":
    found = compare_methods(make_task, [], range(SEEDS), parameters={"epochs": EPOCHS})
    print(found.runs[found.runs["method"] == "no-pi"][["seed", "accuracy", "nll"]].round(4).to_string(index=False))
    print(found.summary[["accuracy", "nll"]].round(4).to_string())
