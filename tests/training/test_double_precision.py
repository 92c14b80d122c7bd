"""Training follows the precision of the network and of the data."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lupi import methods
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.nn.inference import over_examples
from lupi.settings import Settings
from lupi.testing import make_data, make_method
from lupi.training import fit

CASES = [
    pytest.param(name, likelihood, id=f"{name}-{type(likelihood).__name__}")
    for name in methods.names()
    for likelihood in (Categorical(), Bernoulli(), Gaussian())
    if isinstance(likelihood, methods.kind(name).likelihoods)
]


class Roundings(TorchDispatchMode):
    """List the operations that make float32 numbers from double ones."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given, made = (
            {leaf.dtype for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)} for tree in (args, result)
        )
        if torch.float64 in given and torch.float32 in made:
            self.found.add(str(func))
        return result


def in_double(data, *, sparse):
    """Return data with weights, none of which float32 numbers can represent."""
    y = data.y.double() if data.y.is_floating_point() else data.y
    a, weight = data.a.double() / 3, torch.linspace(0.5, 1.6, len(data), dtype=torch.float64)
    return replace(data, x=data.x.double() / 3, a=SparseRows.from_matrix(a) if sparse else a, y=y, weight=weight)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("name", "likelihood"), CASES)
def test_every_method_trains_in_double_precision(name, likelihood, sparse):
    method = make_method(partial(methods.build, name), likelihood).double()
    data = in_double(make_data(likelihood), sparse=sparse)
    with Roundings() as roundings:
        history = fit(method, data, Settings(epochs=1, batch_size=16), validation=data)
        predictor = method.predictor().eval()
        output = over_examples(predictor, data.x)
    tensors = [*method.state_dict().values(), *predictor.state_dict().values(), output]
    assert {tensor.dtype for tensor in tensors if tensor.is_floating_point()} == {torch.float64}
    assert roundings.found == set()
    assert output.isfinite().all()
    losses = np.hstack([history[-1][name] for name in history[-1] if name.startswith("train_")])
    assert (losses != losses.astype(np.float32)).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("dtype", "low", "high"), [(torch.float64, 0, 1e-12), (torch.float32, 1e-9, 1e-4)])
def test_a_linear_model_reaches_least_squares(dtype, low, high, weighted):
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(60, 3)), rng.uniform(0.5, 2, size=60) if weighted else np.ones(60)
    y = x @ [1.0, -2.0, 0.5] + 0.3 + rng.normal(size=60)
    root = np.sqrt(weight)[:, np.newaxis]
    expected = np.linalg.lstsq(root * np.hstack([x, np.ones((60, 1))]), root[:, 0] * y)[0]
    method = methods.NoPI(nn.Identity(), nn.Linear(3, 1), likelihood=Gaussian()).to(dtype)
    tensors = [torch.from_numpy(values).to(dtype) for values in (x, np.zeros((60, 0)), y, weight)]
    data = Annotations(tensors[0], torch.arange(60), *tensors[1:3], weight=tensors[3] if weighted else None)
    fit(method, data, Settings(epochs=300, batch_size=60, optimizer="sgd", momentum=0.0, learning_rate=0.5))
    found = np.append(method.marginal.weight.detach().numpy(), method.marginal.bias.detach().numpy())
    assert low <= np.abs(found - expected).max() < high


def test_float64_weights_of_float32_data_are_rounded():
    """Users who make weights with numpy train in float32."""
    data = replace(make_data(Categorical()), weight=torch.linspace(0.5, 1.6, 40, dtype=torch.float64))
    assert data.normalize_weights().weight.dtype == torch.float32
    one, other = (make_method(partial(methods.build, "tram"), Categorical()) for _ in range(2))
    fit(one, data, Settings(epochs=2))
    fit(other, data.normalize_weights(), Settings(epochs=2))
    assert all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
