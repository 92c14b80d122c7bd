"""Conformance tests for methods. Every method of lupi passes them.

Examples
--------
>>> from lupi.likelihoods import Categorical
>>> from lupi.methods.tram import tram
>>> check_method(tram, Categorical())

With pytest, one test per check::

    @pytest.mark.parametrize("check", lupi.testing.CHECKS)
    def test_my_method(check):
        check(my_method, Categorical())
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.devices import evaluation, seeded
from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, Likelihood
from lupi.methods.base import Conditional, Method
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import fit
from lupi.training.fitting import split_stage

__all__ = ["CHECKS", "check_method"]

Build = Callable[[Parts], Method]
EXAMPLES, ANNOTATIONS, INPUTS, PRIVILEGED = 12, 40, 5, 4


def make_parts(likelihood: Likelihood) -> Parts:
    """Return the parts of a small network."""
    outputs = 3 if isinstance(likelihood, Categorical | Bernoulli) else 1
    return Parts(
        partial(MLP, INPUTS, (16, 8)),
        features=8,
        privileged=PRIVILEGED,
        outputs=outputs,
        likelihood=likelihood,
        annotators=PRIVILEGED,
        tower_widths=(16, 8),
    )


def make_data(likelihood: Likelihood, seed: int = 0) -> Annotations:
    """Return a small training set, with several annotations per example and one-hot privileged information."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(EXAMPLES, INPUTS, generator=generator)
    row = torch.randint(EXAMPLES, (ANNOTATIONS,), generator=generator)
    who = torch.randint(PRIVILEGED, (ANNOTATIONS,), generator=generator)
    y: Tensor
    if isinstance(likelihood, Categorical):
        y = torch.randint(3, (ANNOTATIONS,), generator=generator)
    elif isinstance(likelihood, Bernoulli):
        y = torch.randint(2, (ANNOTATIONS, 3), generator=generator).float()
    else:
        y = torch.randn(ANNOTATIONS, generator=generator)
    return Annotations(x, row, nn.functional.one_hot(who, PRIVILEGED).float(), y, who)


def make_method(build: Build, likelihood: Likelihood, seed: int = 0) -> Method:
    """Return a method with initial weights determined by `seed`."""
    with seeded(seed):
        return build(make_parts(likelihood))


def make_predictor(build: Build, likelihood: Likelihood) -> tuple[nn.Module, Tensor]:
    """Return the predictor of a method that has observed the data, and x."""
    data, method = make_data(likelihood), make_method(build, likelihood)
    method.observe(data)
    return method.predictor().eval(), get_inputs(data)


def get_inputs(data: Annotations) -> Tensor:
    """Return x, as a tensor."""
    x = data.inputs(torch.arange(data.examples))
    assert isinstance(x, Tensor)
    return x


def iterate_stages(method: Method, data: Annotations) -> Iterator[tuple[Method, Batch]]:
    """Let a method observe the data, and yield the methods of every stage with one batch of all their data."""
    method.observe(data)
    for stage in method.stages(data):
        for part in [stage] if isinstance(stage.method, Method) else split_stage(stage):
            assert isinstance(part.method, Method)
            prepared = part.prepare(data)
            yield part.method, prepared.by_annotation(torch.arange(len(prepared)))
            if part.finish is not None:
                part.finish(data)
    method.memory.clear()


def check_losses(build: Build, likelihood: Likelihood) -> None:
    """Check that losses are finite scalars with the names in `gradients`, and that `forward` is their sum."""
    for method, batch in iterate_stages(make_method(build, likelihood), make_data(likelihood)):
        with evaluation(method):
            losses, total = method.losses(batch), method(batch)
        assert set(losses) == set(method.gradients), f"the losses {set(losses)} are not those of `gradients`"
        assert all(loss.shape == () and loss.isfinite() for loss in losses.values()), "a loss is not a finite scalar"
        torch.testing.assert_close(total, torch.stack(list(losses.values())).sum())


def check_gradients(build: Build, likelihood: Likelihood) -> None:
    """Check that each loss sends gradients to the parts that `gradients` lists, and to no others."""
    for method, batch in iterate_stages(make_method(build, likelihood), make_data(likelihood)):
        method.train()
        for name, parts in method.gradients.items():
            method.zero_grad()
            method.losses(batch)[name].backward()  # type: ignore[no-untyped-call]
            reached = {key for key, p in method.named_parameters() if p.grad is not None and bool(p.grad.any())}
            for part in parts:
                has_parameters = any(key.startswith(part + ".") for key, _ in method.named_parameters())
                got = any(key.startswith(part + ".") for key in reached)
                assert got or not has_parameters, f"loss {name!r} does not reach {part!r}"
            stray = {key for key in reached if not key.startswith(tuple(part + "." for part in parts))}
            assert not stray, f"loss {name!r} reaches {sorted(stray)}"


def check_predictor(build: Build, likelihood: Likelihood) -> None:
    """Check that the predictor is a deterministic function of each row of x and uses all its tensors.

    The predictor of a method with `predicts_truth` must be its marginal head on its trunk.
    """
    method = make_method(build, likelihood)
    if method.predicts_truth and hasattr(method, "marginal"):
        same = {id(part) for part in method.predictor().parameters()} == {
            id(part) for module in (method.trunk, method.marginal) for part in module.parameters()
        }
        assert same, "with `predicts_truth`, the predictor must be the marginal head on the trunk"
    predictor, x = make_predictor(build, likelihood)
    with torch.no_grad():
        output = predictor(x)
        assert output.shape[0] == EXAMPLES
        assert output.shape[1] in (make_parts(likelihood).outputs, 2), "the output and the heads differ in width"
        assert torch.equal(predictor(x), output), "two predictions differ"
        torch.testing.assert_close(predictor(x[3:4]), output[3:4])
        for name, tensor in predictor.state_dict().items():
            before = tensor.clone()
            tensor.add_(torch.rand_like(tensor))
            assert not torch.equal(predictor(x), output), f"the predictor contains {name!r} and does not use it"
            tensor.copy_(before)


def check_order(build: Build, likelihood: Likelihood) -> None:
    """Check that the loss depends neither on the order of annotations nor on whether examples are repeated."""
    for method, batch in iterate_stages(make_method(build, likelihood), make_data(likelihood)):
        n = len(batch.row)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
        mixed = Batch(batch.x, batch.row[order], batch.a[order], batch.y[order])
        assert isinstance(batch.x, Tensor)
        repeated = Batch(batch.x[batch.row], torch.arange(n), batch.a, batch.y)
        with evaluation(method):
            for other in (mixed, repeated, repeated._replace(one_to_one=True)):
                torch.testing.assert_close(method(other), method(batch))


def check_weights(build: Build, likelihood: Likelihood) -> None:
    """Check that an annotation with weight w counts as w annotations, and that equal weights have no effect."""
    data = make_data(likelihood)
    generator = torch.Generator().manual_seed(1)
    weighted = replace(data, weight=torch.rand(ANNOTATIONS, generator=generator) + 0.5)
    for method, batch in iterate_stages(make_method(build, likelihood), weighted):
        assert batch.weight is not None, "a stage loses the weights"
        method.eval()
        times = torch.randint(3, batch.row.shape, generator=generator)
        row, a, y = (part.repeat_interleave(times, 0) for part in (batch.row, batch.a, batch.y))
        gradients = []
        for other in (batch._replace(weight=times / times.float().mean()), Batch(batch.x, row, a, y)):
            method.zero_grad()
            method(other).backward()
            gradients.append([parameter.grad for parameter in method.parameters() if parameter.grad is not None])
        for one, two in zip(*gradients, strict=True):
            torch.testing.assert_close(one, two, msg="weights differ from repeated annotations")
    first, second = (make_method(build, likelihood) for _ in range(2))
    fit(first, data, Settings(epochs=1))
    fit(second, replace(data, weight=torch.full((ANNOTATIONS,), 0.3)), Settings(epochs=1))
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), f"equal weights change {name!r}"


def check_soft_labels(build: Build, likelihood: Likelihood) -> None:
    """Check that one-hot labels give the same losses as classes, and that networks learn from soft labels."""
    if not isinstance(likelihood, Categorical):
        return
    data = make_data(likelihood)
    hot = nn.functional.one_hot(data.y, 3).float()
    losses: list[list[Tensor]] = [[], []]
    for y, own in zip((data.y, hot), losses, strict=True):
        for method, batch in iterate_stages(make_method(build, likelihood), replace(data, y=y)):
            with evaluation(method):
                own.append(method(batch))
    for one, two in zip(*losses, strict=True):
        torch.testing.assert_close(one, two, msg="one-hot labels differ from classes")
    before, after = (make_method(build, likelihood) for _ in range(2))
    fit(after, replace(data, y=0.8 * hot + 0.2 / 3), Settings(epochs=1))
    x = get_inputs(data)
    with torch.no_grad():
        outputs = [method.predictor().eval()(x) for method in (before, after)]
    assert bool(outputs[1].isfinite().all()), "soft labels give predictions that are not finite"
    assert not torch.equal(*outputs), "soft labels train nothing"


def check_privileged(build: Build, likelihood: Likelihood) -> None:
    """Check that training uses a iff `uses_privileged`, and that the predictor contains a iff `ships_privileged`.

    A method uses a if its loss or the gradient of its loss depends on a or on the annotators.
    """
    data = make_data(likelihood)
    changed = torch.arange(ANNOTATIONS).roll(1)
    assert data.annotator is not None
    other = replace(data, a=data.a[changed] * 2, annotator=data.annotator[changed])
    x = get_inputs(data)
    steps: list[list[float]] = []
    outputs = []
    for variant in (data, other):
        method = make_method(build, likelihood)
        steps.append([])
        with seeded(0):  # the same training noise in both
            for stage, batch in iterate_stages(method, variant):
                stage.zero_grad()
                loss = stage(batch)
                loss.backward()
                gradients = (parameter.grad for parameter in stage.parameters() if parameter.grad is not None)
                steps[-1] += [loss.item(), *(float(gradient.square().sum()) for gradient in gradients)]
        with torch.no_grad():
            outputs.append(method.predictor().eval()(x))
    assert (steps[0] != steps[1]) == type(method).uses_privileged, "`uses_privileged` contradicts the losses"
    differ = not torch.equal(*outputs)
    assert differ == type(method).ships_privileged, "`ships_privileged` contradicts the predictor"


def check_conditional(build: Build, likelihood: Likelihood) -> None:
    """Check that a conditional head has one output per annotation, which depends on a."""
    method, batch = make_method(build, likelihood), make_data(likelihood).by_annotation(torch.arange(ANNOTATIONS))
    if not isinstance(method, Conditional):
        return
    a = nn.functional.pad(batch.a, (0, method.random))
    with evaluation(method):
        output = method.conditional_output(batch._replace(a=a))
        other = method.conditional_output(batch._replace(a=a.roll(1, 0)))
    assert output.shape[0] == ANNOTATIONS
    assert not torch.equal(output, other), "the conditional head does not depend on a"


def check_observe(build: Build, likelihood: Likelihood) -> None:
    """Check that a method learns from the data in `observe` and in training, but not in `stages`."""
    data, method = make_data(likelihood), make_method(build, likelihood)
    method.observe(data)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    list(method.stages(data))
    for name, tensor in method.state_dict().items():
        assert torch.equal(tensor, before[name]), f"`stages` changes {name!r}, which is for `observe` to do"


def check_training(build: Build, likelihood: Likelihood) -> None:
    """Check that training lowers the loss of every stage and is reproducible."""
    data, settings = make_data(likelihood), Settings(epochs=30, batch_size=8, learning_rate=3e-3)
    first, second = (make_method(build, likelihood) for _ in range(2))
    history = fit(first, data, settings)
    fit(second, data, settings)
    totals: dict[str, list[NDArray[np.float64]]] = {}
    for row in history:
        losses = [np.atleast_1d(value) for name, value in row.items() if name.startswith("train_")]
        totals.setdefault(row["stage"], []).append(np.sum(losses, axis=0))
    for stage, rows in totals.items():
        networks = [losses[~np.isnan(losses)] for losses in np.transpose(rows)]  # NaN after a network stops early
        start, end = np.mean([losses[0] for losses in networks]), np.mean([losses[-1] for losses in networks])
        assert end < start, f"the loss of stage {stage!r} went from {start} to {end}"
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), f"{name!r} differs between two equal trainings"


def check_state(build: Build, likelihood: Likelihood) -> None:
    """Check that the state dict of a trained method, and a copy of the method, give the same predictor."""
    data = make_data(likelihood)
    trained, fresh = make_method(build, likelihood), make_method(build, likelihood, seed=1)
    fit(trained, data, Settings(epochs=1))
    fresh.load_state_dict(trained.state_dict())
    x = get_inputs(data)
    with torch.no_grad():
        output = trained.predictor().eval()(x)
        assert torch.equal(fresh.predictor().eval()(x), output), "the state dict does not determine the predictor"
        assert torch.equal(copy.deepcopy(trained).predictor().eval()(x), output), "a copy predicts differently"


def check_export(build: Build, likelihood: Likelihood) -> None:
    """Check that the predictor can be exported for any number of rows."""
    predictor, x = make_predictor(build, likelihood)
    torch.compiler.reset()  # torch 2.6 allows few exports per process
    program = torch.export.export(predictor, (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x[:7]), predictor(x[:7]))


CHECKS: tuple[Callable[[Build, Likelihood], None], ...] = (
    check_losses,
    check_gradients,
    check_predictor,
    check_order,
    check_weights,
    check_soft_labels,
    check_privileged,
    check_conditional,
    check_observe,
    check_training,
    check_state,
    check_export,
)
"""All checks, in order."""


def check_method(build: Build, likelihood: Likelihood) -> None:
    """Run every check on a method.

    Parameters
    ----------
    build : callable
        Makes the method from `lupi.nn.Parts`.
    likelihood : Likelihood
        The likelihood of the labels.
    """
    for check in CHECKS:
        check(build, likelihood)
