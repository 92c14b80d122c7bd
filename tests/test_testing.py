"""The conformance suite over every method and likelihood, and proof that it finds faults."""

from dataclasses import replace
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Ordinal
from lupi.methods import TRAM, NoPI
from lupi.methods.base import Stage
from lupi.methods.imputation import MeanImputation
from lupi.methods.no_pi import no_pi

LIKELIHOODS = (Categorical(), Bernoulli(), Gaussian())
OPTIONS = {"auto": {"folds": 2}, "stack": {"folds": 2}}
"""Options that save time."""
CASES = [
    pytest.param(name, likelihood, id=f"{name}-{type(likelihood).__name__}")
    for name in methods.names()
    for likelihood in LIKELIHOODS
    if isinstance(likelihood, methods.kind(name).likelihoods)
]
CASES += [  # grades differ from classes only where annotators are modelled
    pytest.param(name, Ordinal(), id=f"{name}-Ordinal")
    for name in methods.names()
    if methods.kind(name).models_annotators
]


@pytest.mark.parametrize("check", testing.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "likelihood"), CASES)
def test_every_method_conforms(name, likelihood, check):
    check(partial(methods.build, name, **OPTIONS.get(name, {})), likelihood)


@pytest.mark.parametrize("heads", ["conditional", "marginal"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda kind: type(kind).__name__)
def test_het_tram_with_one_noisy_head_conforms(heads, likelihood):
    testing.check_method(partial(methods.build, "het-tram", heads=heads), likelihood)


def test_probit_heads_conform():
    testing.check_method(partial(methods.build, "het-tram", factors=0), Bernoulli())


@pytest.mark.parametrize(
    ("name", "options"), [("pi-transition", {"random": 3}), ("full-marginalization", {"samples": 7})]
)
def test_options_conform(name, options):
    testing.check_method(partial(methods.build, name, **options), Categorical())


class Leaky(TRAM):
    """TRAM without the stop-gradient."""

    def losses(self, batch):
        features = self.trunk(batch.x)
        conditional = self.conditional(self.tower(features[batch.row], batch.a))
        marginal = self.marginal(features)[batch.row]
        return {
            "marginal": self.likelihood.loss(marginal, batch.y),
            "conditional": self.likelihood.loss(conditional, batch.y),
        }


class Heavy(NoPI):
    """Ships a layer that it does not need."""

    def predictor(self):
        predictor = super().predictor()
        predictor.register_buffer("unused", torch.ones(2))
        return predictor


class Unnamed(NoPI):
    gradients: ClassVar = {"loss": ("trunk", "marginal")}


class Secretive(MeanImputation):
    ships_privileged: ClassVar = False


class Blind(NoPI):
    uses_privileged: ClassVar = True


class Forgetful(MeanImputation):
    """Keeps what it predicts with out of its state."""

    def __init__(self, *parts, likelihood):
        super().__init__(*parts, likelihood=likelihood)
        self.register_buffer("imputed", self.imputed, persistent=False)


class Hasty(MeanImputation):
    """Learns from the data in `stages`."""

    def stages(self, data):
        self.imputed = 2 * data.a.mean(0)
        return super().stages(data)


class OrderBound(NoPI):
    def losses(self, batch):
        return {"marginal": super().losses(batch)["marginal"] * batch.row[0]}


class Weightless(NoPI):
    """Ignores the weights."""

    def losses(self, batch):
        return super().losses(batch._replace(weight=None))


class Careless(NoPI):
    """Loses the weights before training."""

    def stages(self, data):  # noqa: ARG002
        yield Stage("train", self, lambda data: replace(data, weight=None))


class Hard(NoPI):
    """Ignores how probable the classes of a soft label are."""

    def losses(self, batch):
        return super().losses(batch._replace(y=batch.y if batch.y.ndim == 1 else 0 * batch.y))


class Stuck(NoPI):
    def losses(self, batch):
        return {"marginal": 0 * super().losses(batch)["marginal"]}


class FrozenBatch(NoPI):
    """Its predictor knows the number of rows."""

    def predictor(self):
        class Fixed(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x) + torch.zeros(12, 1)

        return Fixed(super().predictor())


def like_tram(kind, parts):
    return kind(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), likelihood=parts.likelihood)


def like_no_pi(kind, parts):
    return kind(parts.trunk(), parts.head(), likelihood=parts.likelihood)


def like_imputation(kind, parts):
    return kind(parts.trunk(), parts.tower(), parts.tower_head(), likelihood=parts.likelihood)


@pytest.mark.parametrize(
    ("build", "check", "message"),
    [
        (partial(like_tram, Leaky), testing.check_gradients, "loss 'marginal' reaches"),
        (partial(like_no_pi, Heavy), testing.check_predictor, "does not use it"),
        (partial(like_no_pi, Unnamed), testing.check_losses, "not those of `gradients`"),
        (partial(like_imputation, Secretive), testing.check_privileged, "`ships_privileged` contradicts"),
        (partial(like_no_pi, Blind), testing.check_privileged, "`uses_privileged` contradicts"),
        (partial(like_imputation, Forgetful), testing.check_state, "does not determine"),
        (partial(like_imputation, Hasty), testing.check_observe, "`stages` changes 'imputed'"),
        (partial(like_no_pi, OrderBound), testing.check_order, "not close"),
        (partial(like_no_pi, Weightless), testing.check_weights, "weights differ from repeated"),
        (partial(like_no_pi, Careless), testing.check_weights, "loses the weights"),
        (partial(like_no_pi, Hard), testing.check_soft_labels, "one-hot labels differ"),
        (partial(like_no_pi, Stuck), testing.check_gradients, "does not reach"),
        (partial(like_no_pi, Stuck), testing.check_training, "the loss of stage"),
    ],
)
def test_the_suite_finds_faults(build, check, message):
    check(no_pi if "tram" not in str(build) else partial(like_tram, TRAM), Categorical())
    with pytest.raises(AssertionError, match=message):
        check(build, Categorical())


def test_the_suite_finds_a_predictor_for_one_batch_size():
    with pytest.raises(Exception, match=r"rows|Dim|dynamic"):
        testing.check_export(partial(like_no_pi, FrozenBatch), Categorical())
