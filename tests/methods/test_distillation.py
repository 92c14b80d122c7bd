from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from examples.generalized_distillation import accuracies
from lupi import testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import build
from lupi.methods.distillation import TEACHERS, distillation, distilled_tram, generalized_distillation
from lupi.settings import Settings
from lupi.training import fit

LIKELIHOODS = [Categorical(), Bernoulli(), Gaussian()]


def cross_entropy(likelihood, target, output):
    """Written out, target and output as probabilities or means."""
    if isinstance(likelihood, Categorical):
        return -(target * output.log_softmax(-1)).sum(-1).mean()
    if isinstance(likelihood, Bernoulli):
        return -(target * F.logsigmoid(output) + (1 - target) * F.logsigmoid(-output)).mean()
    return 0.5 * (target - output[:, 0]).square().mean()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("build", [distillation, generalized_distillation])
def test_student_loss_is_the_papers(build, likelihood, weight, temperature):
    data = testing.make_data(likelihood)
    method = testing.make_method(lambda p: build(p, temperature=temperature, weight=weight), likelihood).eval()
    batch = data.by_annotation(torch.arange(len(data)))
    with torch.no_grad():
        teacher = (
            method.teacher.conditional_output(batch)
            if build is generalized_distillation
            else method.teacher.predictor()(batch.x)[batch.row]
        )
        if isinstance(likelihood, Categorical):
            soft, hard = torch.softmax(teacher / temperature, -1), F.one_hot(data.y, 3).float()
        elif isinstance(likelihood, Bernoulli):
            soft, hard = torch.sigmoid(teacher / temperature), data.y
        else:
            soft, hard = teacher[:, 0], data.y
        student = method.student.predictor()(batch.x)[batch.row]
        expected = weight * cross_entropy(likelihood, soft, student)
        expected += (1 - weight) * cross_entropy(likelihood, hard, student)
        softened = method.soften(data).by_annotation(torch.arange(len(data)))
        constant = 0
        if isinstance(likelihood, Gaussian):  # ½ log 2π, and the spread of the two targets around their mean
            constant = 0.5 * (
                torch.log(torch.tensor(2 * torch.pi)) - weight * (1 - weight) * (soft - hard).square().mean()
            )
        torch.testing.assert_close(method(softened), expected + constant)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda kind: type(kind).__name__)
def test_distilled_tram_softens_the_conditional_loss_only(likelihood):
    data = testing.make_data(likelihood)
    method = testing.make_method(distilled_tram, likelihood).eval()
    index = torch.arange(len(data))
    plain, soft = data.by_annotation(index), method.soften(data).by_annotation(index)
    with torch.no_grad():
        losses = method.losses(soft)
        marginal = method.predictor()(plain.x)[plain.row]
        torch.testing.assert_close(losses["marginal"], likelihood.loss(marginal, plain.y))
        teacher = method.teacher.conditional_output(plain)
        labels, y = likelihood.mean(teacher, 3.0), likelihood.target(plain.y, teacher.shape[-1])
        expected = likelihood.loss(method.student.conditional_output(plain), 0.5 * labels + 0.5 * y)
        torch.testing.assert_close(losses["conditional"], expected)


def test_a_student_of_weight_one_copies_its_teacher():
    data = testing.make_data(Categorical())
    method = testing.make_method(lambda p: distillation(p, temperature=1.0, weight=1.0), Categorical())
    history = fit(method, data, Settings(epochs=300, batch_size=40, learning_rate=5e-3))
    assert list(dict.fromkeys(row["stage"] for row in history)) == ["teacher", "student"]
    x = data.x[data.row.unique()]
    with torch.no_grad():
        p, q = (torch.softmax(part.predictor()(x), -1) for part in (method.teacher, method.student))
    torch.testing.assert_close(p, q, atol=0.05, rtol=0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("teacher", TEACHERS)
def test_a_method_with_any_teacher_conforms(teacher, likelihood):
    testing.check_method(lambda parts: generalized_distillation(parts, teacher=teacher), likelihood)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("teacher", ["privileged", "linear"])
def test_a_teacher_of_a_alone_does_not_depend_on_x(teacher, likelihood):
    data = testing.make_data(likelihood)
    method = testing.make_method(lambda parts: generalized_distillation(parts, teacher=teacher, weight=1.0), likelihood)
    other = replace(data, x=data.x.flip(0) + 1)
    assert torch.equal(method.soften(data).y, method.soften(other).y)
    batch = data.by_annotation(torch.arange(len(data)))
    zero, once, twice = (method.teacher.conditional_output(batch._replace(a=size * batch.a)) for size in (0, 1, 2))
    assert torch.allclose(twice - zero, 2 * (once - zero), atol=1e-6) == (teacher == "linear")


def test_a_linear_teacher_with_early_stopping_learns_what_logistic_regression_does():
    """The soft labels are p(y | a), whatever x says about single labels."""
    data = testing.make_data(Categorical())
    method = testing.make_method(
        lambda parts: generalized_distillation(parts, teacher="linear", temperature=1.0, weight=1.0), Categorical()
    )
    fit(method, data, Settings(epochs=400, batch_size=40, learning_rate=1e-2, patience=50), validation=data)
    frequency = torch.zeros(testing.PRIVILEGED, 3).index_put_(
        (data.a.argmax(1), data.y), torch.ones(len(data)), accumulate=True
    )
    expected = (frequency / frequency.sum(1, keepdim=True))[data.a.argmax(1)]
    torch.testing.assert_close(method.soften(data).y, expected, atol=0.02, rtol=0)


def test_an_unknown_teacher_is_refused():
    with pytest.raises(ValueError, match="`teacher` to be one of both, privileged, linear, but got 'x'"):
        build("generalized-distillation", testing.make_parts(Categorical()), teacher="x")


@pytest.mark.parametrize(("experiment", "gain"), [(1, 0.07), (3, 0.08)])
def test_published_gains_of_lopez_paz(experiment, gain):
    """Their synthetic experiments 1 and 3; the gains that they publish are means of 100 repetitions."""
    models = ("no privileged information", "student of a linear teacher of a")
    regular, distilled = (accuracies(experiment, model, repetitions=8) for model in models)
    assert (distilled > regular).all()
    assert (distilled - regular).mean() == pytest.approx(gain, abs=0.02)


def test_teacher_and_student_start_from_different_weights():
    method = testing.make_method(distillation, Categorical())
    assert not torch.equal(method.teacher.marginal.weight, method.student.marginal.weight)
