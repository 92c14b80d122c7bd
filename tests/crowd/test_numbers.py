"""True numbers and annotators, against the exact joint posterior and simulations of the model."""

import numpy as np
import pytest

from lupi.crowd.numbers import infer_numbers


def simulate(seed, *, examples=400, people=12, each=3, unexplained=0.3, offsets=0.5, gold=0):
    rng = np.random.default_rng(seed)
    prediction = rng.normal(size=examples)
    truth = prediction + np.sqrt(unexplained) * rng.normal(size=examples)
    example = np.arange(examples).repeat(each)
    annotator = rng.permuted(np.tile(np.arange(people), (examples, 1)), axis=1)[:, :each].ravel()
    b, s = rng.normal(0, offsets, people), rng.uniform(0.2, 1.5, people)
    b -= b.mean()
    y = truth[example] + b[annotator] + s[annotator] * rng.normal(size=len(example))
    known = np.full(examples, np.nan)
    known[:gold] = truth[:gold]
    arguments = {"example": example, "annotator": annotator, "weight": rng.uniform(0.5, 2, len(y)), "gold": known}
    return y, prediction, truth, b, s, arguments


@pytest.mark.parametrize("gold", [0, 50])
def test_means_are_those_of_the_joint_posterior_given_the_variances(gold):
    y, prediction, _, _, _, arguments = simulate(0, examples=60, people=5, gold=gold)
    found = infer_numbers(y, prediction, **arguments)
    example, annotator, known = arguments["example"], arguments["annotator"], ~np.isnan(arguments["gold"])
    design = np.hstack([np.eye(60)[example], np.eye(5)[annotator]])
    precision = np.diag(arguments["weight"] / found.variances[annotator])
    u = np.where(known, arguments["gold"] - prediction - found.level, 0)
    free = np.concatenate([~known, np.ones(5, bool)])
    # The offsets sum to zero in the estimate: their prior mean has moved into the level.
    spread = np.mean(found.offsets**2)
    prior = np.diag(np.concatenate([np.full(60, 1 / found.unexplained), np.full(5, 1 / spread)]))
    residual = y - prediction[example] - found.level - u[example]
    system = (design.T @ precision @ design + prior)[np.ix_(free, free)]
    exact = np.linalg.solve(system, (design.T @ precision @ residual)[free])
    truth = np.where(known, arguments["gold"], 0)
    truth[~known] = (prediction + found.level)[~known] + exact[: (~known).sum()]
    np.testing.assert_allclose(found.truth, truth, atol=0.05)


def test_parameters_of_the_model_are_recovered():
    y, prediction, truth, b, s, arguments = simulate(1, examples=4000)
    found = infer_numbers(y, prediction, **arguments | {"weight": np.ones(len(y))})
    assert found.unexplained == pytest.approx(0.3, rel=0.1)
    assert found.level == pytest.approx(0, abs=0.05)
    np.testing.assert_allclose(found.offsets, b, atol=0.1)
    np.testing.assert_allclose(np.sqrt(found.variances), s, rtol=0.15)
    example = arguments["example"]
    mean = np.bincount(example, y) / 3

    def error(estimate):
        return np.mean((estimate - truth) ** 2)

    assert error(found.truth) < 0.7 * min(error(mean), error(prediction))


def test_every_annotator_counts_once_in_the_level():
    rng = np.random.default_rng(2)
    annotator = np.concatenate([np.zeros(900, int), rng.integers(1, 10, 100)])
    offset = np.where(np.arange(10) == 0, 1.0, 0.0)  # nine labels of ten are one annotator's, who rates too high
    example, prediction = rng.integers(300, size=1000), np.full(300, 0.9)  # as a network has learnt it
    y = offset[annotator] + 0.3 * rng.normal(size=1000)
    found = infer_numbers(
        y, prediction, example=example, annotator=annotator, weight=np.ones(1000), gold=np.full(300, np.nan)
    )
    assert prediction.mean() + found.level == pytest.approx(0.1, abs=0.1)


def test_identical_numbers_are_their_own_truth():
    example = np.arange(10).repeat(2)
    arguments = {"annotator": np.tile([0, 1], 10), "weight": np.ones(20), "gold": np.full(10, np.nan)}
    found = infer_numbers(np.zeros(20), np.zeros(10), example=example, **arguments)
    np.testing.assert_allclose(found.truth, 0, atol=1e-9)
