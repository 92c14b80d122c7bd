from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Problem
from lupi.diagnose.checks.agreement import ERRORS, OPINIONS, Disagreement


@pytest.mark.parametrize(("opinions", "sentence"), [(False, ERRORS), (True, OPINIONS)])
def test_what_annotators_disagree_about(opinions, sentence):
    rng = np.random.default_rng(0)
    example, who = np.arange(1000).repeat(5), np.concatenate([rng.permutation(8)[:5] for _ in range(1000)])
    chance = rng.beta(1, 1, 1000) if opinions else rng.integers(2, size=1000)
    label = (rng.random(5000) < chance[example]).astype(int)
    if not opinions:
        label = np.where(who < 4, rng.integers(2, size=5000), label)  # half of them guess
    p = np.full((5000, 2), 0.5)
    problem = Problem(
        rng.normal(size=(5000, 1)), label, pd.DataFrame({"who": who}), example=example, annotator=who, probabilities=p
    )
    found = Disagreement().run(problem)
    assert found.section.text.startswith(sentence)
    assert bool(found.sentence) == opinions
    assert found.numbers["low"] < found.numbers["gain_of_truth"] < found.numbers["high"]
    assert Disagreement().run(replace(problem, annotator=None)) is None
