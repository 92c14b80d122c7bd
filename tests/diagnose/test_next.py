"""The section on what to label next."""

import numpy as np
import pandas as pd

from lupi.crowd import infer
from lupi.crowd.next_labels import Outlook
from lupi.diagnose import Problem
from lupi.diagnose.checks.next import Next, choose_annotators, describe_next


def test_the_most_reliable_annotator_who_has_not_labelled_an_example_is_asked():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=60)
    example = np.arange(60).repeat(3)
    who = np.tile(["good", "fair", "poor"], 60)
    right = rng.random(180) < np.select([who == "good", who == "fair"], [0.99, 0.85], 0.55)
    use = rng.random(180) < 0.8
    use[:3] = True
    label = np.where(right, truth[example], 1 - truth[example])
    p = np.where(truth[example][:, None] == np.arange(2), 0.8, 0.2)
    found = infer(p[use], label[use], example=example[use], annotator=who[use])
    asked = choose_annotators(found)
    assert asked[0] is None  # all have labelled it
    kept = pd.DataFrame({"example": example[use], "who": who[use]})
    for number, (_, own) in enumerate(kept.groupby("example", sort=False)):
        left = [name for name in ("good", "fair", "poor") if name not in set(own["who"])]
        assert asked[number] == (left[0] if left else None)


def test_the_first_examples_and_what_they_buy_are_named():
    table = pd.DataFrame({"example": list("cab"), "label": 1, "probability": [0.6, 0.7, 0.9], "labels": 2})
    outlook = [Outlook(0, 0.8, 0.7, 0.9), Outlook(2, 0.85, 0.8, 0.9), Outlook(3, 0.86, 0.8, 0.9)]
    found = describe_next(
        table.assign(agreement=0.5, given=True, gain=[0.3, 0.2, 0.1]), outlook, pd.DataFrame({"label": ["text"] * 3})
    )
    assert found.sentence == (
        "Label examples c, a, b next. One more label for each of the first 3 examples is expected to raise the "
        "accuracy of the consensus from 80.0% to 86.0% [80.0%, 90.0%], unless annotators share errors."
    )
    first, second = found.section.tables
    assert first.frame["input_label"].tolist() == ["text"] * 3
    assert second.frame["more labels"].tolist() == [0, 2, 3]
    assert found.numbers["2 more"] == {"accuracy": 0.85, "low": 0.8, "high": 0.9}


def test_the_fewest_labels_that_are_enough_are_named_and_whether_more_buy_anything():
    table = pd.DataFrame({"example": list("cab"), "label": 1, "probability": 0.6, "labels": 2, "gain": 0.1})
    table = table.assign(agreement=0.5, given=True)
    outlook = [Outlook(0, 0.8, 0.7, 0.9), Outlook(1, 0.899, 0.8, 0.95), Outlook(3, 0.9, 0.8, 0.95)]
    found = describe_next(table, outlook, pd.DataFrame(index=range(3))).sentence
    assert "One more label for each of the first 1 examples" in found
    assert found.endswith("to 89.9% [80.0%, 95.0%], unless annotators share errors. More of them would add little.")
    found = describe_next(table, [outlook[0], Outlook(3, 0.8005, 0.7, 0.9)], pd.DataFrame(index=range(3))).sentence
    assert found.startswith("More labels of the same examples would hardly change the consensus.")


def test_what_labels_of_new_examples_buy_for_the_model():
    """Cheap networks on 240 examples: the curve goes up, and all of it is in the report and in the numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 10))
    y = (x @ rng.normal(size=10) + rng.logistic(size=240) > 0).astype(int)
    parameters = {"epochs": 5, "hidden": (8,), "learning_rate": 0.05}
    problem = Problem(x, y, pd.DataFrame({"note": y}), method="no-pi", folds=2, parameters=parameters)
    assert [len(p) for p in problem.curve] == [240] * 3
    found = Next().run(problem)
    now, most = found.numbers["0 more"], found.numbers["240 more"]
    assert now["model_accuracy_low"] < now["model_accuracy"] < most["model_accuracy"] < most["model_accuracy_high"]
    assert most["model_nll"] < now["model_nll"]
    shown = [column.name for column in found.section.tables[1].columns()]
    assert shown == ["more labels", "consensus", "model", "model gains", "NLL"]
    bought = f"{100 * most['model_accuracy_gain']:.1f} points ["
    assert f"240 more labels, of new examples, are expected to raise the accuracy of the model by {bought}" in (
        found.sentence
    )
    assert found.sentence.endswith(f"to {most['model_accuracy']:.1%}.")
    assert now["model_accuracy_gain"] == 0 <= most["model_accuracy_gain_low"] < most["model_accuracy_gain_high"]
    few = Problem(x[:150], y[:150], pd.DataFrame({"note": y[:150]}), method="no-pi", folds=2, parameters=parameters)
    assert not few.has_curve
    assert [column.name for column in Next().run(few).section.tables[1].columns()] == ["more labels", "consensus"]
