import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lupi.compare.verdict import write_verdict

NOISE = np.random.default_rng(0).normal(size=(12, 10))


def runs_of(shifts, metric="nll", spread=0.02):
    """Runs whose paired differences from No PI have exactly these means and this standard deviation."""
    base = 1 + 0.1 * NOISE[0]
    rows = {"no-pi": base}
    for row, (name, shift) in enumerate(shifts.items(), 1):
        noise = NOISE[row] - NOISE[row].mean()
        rows[name] = base + shift + spread * noise / noise.std(ddof=1)
    return pd.concat(
        [pd.DataFrame({"method": name, "seed": range(10), metric: values}) for name, values in rows.items()]
    )


def half_width(level, spread=0.02):
    return stats.t.ppf(0.5 + level / 2, 9) * spread / np.sqrt(10)


def test_a_gain():
    text = write_verdict(runs_of({"tram": -0.1}), ["tram"], "nll")
    low, high = 0.1 - half_width(0.95), 0.1 + half_width(0.95)
    assert text.startswith("Better than No PI: tram lowers NLL from ")
    assert "`controls=True`" in text.splitlines()[-1]
    assert f"by 0.100 (95 % interval {low:.3f} to {high:.3f})." in text


def test_the_best_of_many_needs_a_wider_interval():
    """A difference that is significant alone is not if it is the best of nine."""
    shift = -(half_width(0.95) + half_width(1 - 0.05 / 9)) / 2
    names = ["tram", *(f"m{i}" for i in range(8))]
    runs = runs_of({name: shift if name == "tram" else 0.0 for name in names})
    assert write_verdict(runs, ["tram"], "nll").startswith("Better than No PI: tram lowers")
    text = write_verdict(runs, names, "nll")
    assert text.startswith("No significant difference from No PI: tram, the best of 9 methods,")
    low, high = shift - half_width(1 - 0.05 / 9), shift + half_width(1 - 0.05 / 9)
    assert f"(95 % interval {low:+.3f} to {high:+.3f}, adjusted for the choice among 9)." in text
    assert "Significantly better than No PI: 0 of 9; significantly worse: 0." in text


def test_harm():
    text = write_verdict(runs_of({"tram": 0.2, "pi-dual": 0.1}), ["tram", "pi-dual"], "nll")
    assert text.startswith("Worse than No PI: pi-dual, the best of 2 methods, raises NLL")
    assert "Significantly better than No PI: 0 of 2; significantly worse: 2." in text


def test_higher_accuracy_is_better():
    text = write_verdict(runs_of({"tram": 0.2, "pi-dual": -0.1}, "accuracy"), ["tram", "pi-dual"], "accuracy")
    assert text.startswith("Better than No PI: tram, the best of 2 methods, raises accuracy from ")
    assert " % to 1" in text
    assert ", by 20.0 points (95 % interval 1" in text
    assert "Significantly better than No PI: 1 of 2; significantly worse: 1." in text


CONTROLS = ["no-pi [early stopping]", "tram [PI zeros]", "tram [PI shuffled]"]


@pytest.mark.parametrize(
    ("zeros", "early", "said", "not_said"),
    [
        (
            0.0,
            0.0,
            ["Privileged information helped: tram", "better than every control"],
            ["need not come", "less overfitting", "but not better"],
        ),
        (
            -0.1,
            0.0,
            ["but not better than all controls", "worse than tram: tram [PI zeros]. The gain need not come"],
            ["less overfitting", "every control", "helped"],
        ),
        (
            0.0,
            -0.15,
            ["but not better than all controls", "may be due to less overfitting"],
            ["need not come", "every control", "helped"],
        ),
    ],
)
def test_controls(zeros, early, said, not_said):
    shifts = {"tram": -0.1, "tram [PI zeros]": zeros, "tram [PI shuffled]": 0.0, "no-pi [early stopping]": early}
    text = write_verdict(
        runs_of({**shifts, "x [PI zeros]": 0.0}), ["tram"], "nll", controls=[*CONTROLS, "x [PI zeros]"]
    )
    assert "Controls, difference in NLL from tram: no-pi [early stopping] " in text
    assert f"tram [PI shuffled] {0.1:+.3f} (" in text
    assert "x [PI zeros]" not in text
    for part in said:
        assert part in text
    for part in not_said:
        assert part not in text


def test_controls_without_a_significant_gain_are_only_listed():
    shifts = {"tram": -0.001, **dict.fromkeys(CONTROLS, 0.0)}
    text = write_verdict(runs_of(shifts), ["tram"], "nll", controls=CONTROLS)
    assert "No significant difference" in text
    assert text.splitlines()[-1].startswith("Controls, difference in NLL")


def test_accuracy_is_said_beside_nll():
    runs = runs_of({"tram": -0.1})
    runs["accuracy"] = np.where(runs["method"] == "tram", 0.75, 0.7) + 0.01 * (runs["seed"] % 2)
    assert "Accuracy of tram: +5.0 points (95 % interval +5.0 to +5.0)." in write_verdict(runs, ["tram"], "nll")


def test_nothing_to_judge():
    assert write_verdict(runs_of({"distillation": -0.1}), [], "nll").startswith("No method with privileged information")
