"""Random numbers come from generators of their own, whichever module of torch draws them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import vmap

from lupi.nn.noise import Noise, draw_normal, drop, find_variant, seed_noise
from tests.training.helpers import global_states

X = torch.arange(24.0, requires_grad=True).reshape(2, 3, 4)
HALF = torch.full((50,), 0.5)
CPU = torch.device("cpu")
DRAWS = {
    "linear": lambda: nn.Linear(3, 4).weight,
    "convolution": lambda: nn.Conv2d(3, 4, 2).weight,
    "embedding": lambda: nn.Embedding(3, 4).weight,
    "recurrent": lambda: nn.LSTM(4, 3, 2, dropout=0.5)(X)[0],
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(X),
    "orthogonal": lambda: nn.init.orthogonal_(torch.empty(4, 4)),
    "truncated": lambda: nn.init.trunc_normal_(torch.empty(9)),
    "dropout": lambda: nn.Dropout(0.5)(X),
    "dropout of channels": lambda: nn.Dropout1d(0.5)(X),
    "alpha dropout": lambda: nn.AlphaDropout(0.5)(X),
    "random relu": lambda: nn.RReLU()(X - 9),
    "randn": lambda: torch.randn(5),
    "randn_like": lambda: torch.randn_like(X),
    "rand": lambda: torch.rand(5),
    "rand_like": lambda: torch.rand_like(X),
    "randint": lambda: torch.randint(2**31, ()),
    "randint between": lambda: torch.randint(7, 10**6, (3,)),
    "randint_like": lambda: torch.randint_like(HALF, 10**6),
    "randperm": lambda: torch.randperm(20),
    "bernoulli": lambda: torch.bernoulli(HALF),
    "multinomial": lambda: torch.multinomial(HALF, 20),
    "normal": lambda: torch.normal(HALF, 1.0),
    "gamma": lambda: torch.distributions.Gamma(HALF, HALF).sample(),
    "poisson": lambda: torch.poisson(10 * HALF),
    "binomial": lambda: torch.binomial(100 * HALF, HALF),
    "ours": lambda: draw_normal(3, 4, dtype=torch.float32, device=CPU),
    "vmap": lambda: vmap(lambda x: nn.functional.dropout(x) + torch.randn(4), randomness="different")(X),
    "vmap of ours": lambda: vmap(lambda x: x + draw_normal(4, dtype=x.dtype, device=CPU), randomness="different")(X),
}


@pytest.mark.parametrize("name", DRAWS)
def test_everything_draws_as_a_global_generator_with_that_seed_would(name):
    draw = DRAWS[name]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        expected = draw(), draw()
    before = global_states()
    with seed_noise(5):
        found = draw(), draw()
    assert global_states() == before
    assert all(map(torch.equal, found, expected))
    assert not torch.equal(*found), "the draws do not differ"


def test_an_operator_that_takes_no_generator_borrows_the_global_one(monkeypatch):
    monkeypatch.setattr("lupi.nn.noise.find_variant", lambda _: None)
    monkeypatch.setattr("lupi.nn.noise.IN_PLACE", {})
    for name in ("dropout", "randn_like", "randperm"):
        test_everything_draws_as_a_global_generator_with_that_seed_would(name)


def test_dropout_that_takes_no_generator():
    """Of a GPU: the mask is Bernoulli, kept values are scaled, and the gradient is the scaled mask."""
    values, generator = torch.ones(100_000), torch.Generator().manual_seed(0)
    output, mask = drop(values, 0.2, True, generator=generator)
    assert mask.dtype == torch.bool
    assert float(mask.float().mean()) == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 1e5))
    torch.testing.assert_close(output, mask / 0.8)
    assert torch.equal(drop(values, 0.2, False, generator=generator)[0], values)
    assert not drop(values, 1.0, True, generator=generator)[0].any()
    assert find_variant(torch.ops.aten.native_dropout.default) is None


@pytest.mark.parametrize("name", ["linear", "dropout", "vmap", "ours"])
def test_threads_do_not_disturb_each_other(name):
    def work(seed):
        with seed_noise(seed):
            return [DRAWS[name]() for _ in range(20)]

    expected = [work(seed) for seed in range(4)]
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            torch.rand(100)

    stranger = threading.Thread(target=disturb)
    stranger.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(work, range(4)))
    finally:
        stop.set()
        stranger.join()
    for own, other in zip(found, expected, strict=True):
        assert all(map(torch.equal, own, other))


def test_lent_noise_continues_where_it_was():
    generator, noise, before = torch.Generator().manual_seed(3), Noise(3), global_states()
    with noise.redirect():
        first = torch.randn(3)
    with noise.lend():
        second = torch.randn(20)
    with noise.use():
        third = draw_normal(5, dtype=torch.float32, device=CPU)
    assert global_states() == before
    for found in (first, second, third):
        assert torch.equal(found, torch.randn(len(found), generator=generator))


def test_blocks_end_with_an_error():
    before = global_states()
    for block in (Noise(0).lend, Noise(0).redirect, lambda: seed_noise(0)):
        with pytest.raises(RuntimeError), block():
            torch.rand(3) @ torch.rand(2)
        assert global_states() == before
    torch.manual_seed(0)
    outside = draw_normal(2, dtype=torch.float32, device=CPU)
    torch.manual_seed(0)
    assert torch.equal(outside, torch.randn(2))
