"""Attention, tokens and convolutions on a GPU, eager and compiled; the same tests run on the CPU."""

import functools

import pytest
import torch
from torch import nn

import lupi
from lupi import PrivilegedClassifier
from lupi._internal.pretrained import TextTrunk
from lupi.data import Annotations
from lupi.datasets import load_digits_annotated
from lupi.methods import TRAM
from lupi.nn import Tower
from lupi.settings import Settings
from lupi.training import Checkpoint, fit, pick_device
from tests.training.helpers import interrupted, weights

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", "auto", *(pytest.param(name, marks=on_a_gpu) for name in ("cuda", "cuda:0"))]
NETWORKS = ["vit", "bert", "resnet"]
ROWS, WIDTH = 26, 16
HOW = Settings(epochs=3, batch_size=8, learning_rate=1e-3, optimizer="sgd", clip=1.0, compile=False, cuda_graph=False)


class ViT(nn.Module):
    """Patches as tokens, and attention between them."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.attention = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.attention(self.patches(x).flatten(2).mT).mean(1)


def make_bert():
    """Make a text encoder of transformers, as `pretrained` does."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(**sizes, **off, vocab_size=50, max_position_embeddings=8)
    return TextTrunk(transformers.BertModel(config, add_pooling_layer=False), config.pad_token_id)


class ResNet(nn.Module):
    """Convolutions and batch norms beside a skip connection."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        block = [nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH)]
        self.block = nn.Sequential(*block)

    def forward(self, x):
        x = self.first(x)
        return torch.relu(x + self.block(x)).mean((2, 3))


def make(network):
    torch.manual_seed(0)
    trunk = {"vit": ViT, "bert": make_bert, "resnet": ResNet}[network]()
    return TRAM(trunk, Tower(2, WIDTH, (8, 8)), nn.Linear(8, 3), nn.Linear(WIDTH, 3))


def draw(network):
    """Draw a training set whose last batch is smaller than the others."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(ROWS, 3, 8, 8, generator=generator)
    if network == "bert":
        x = torch.randint(50, (ROWS, 6), generator=generator)
    y, a = torch.randint(3, (ROWS,), generator=generator), torch.rand(ROWS, 2, generator=generator)
    return Annotations(x, torch.arange(ROWS), a, y)


@functools.cache
def train_on_the_cpu(network):
    """Train eagerly, and return the losses and the weights."""
    method = make(network)
    return fit(method, draw(network), HOW, device="cpu"), weights(method)


def change(monkeypatch, how, device):
    """Return settings; on the CPU, compile without the time that it takes to make code."""
    if how == "compiled" and pick_device(device).type == "cpu":
        usual = torch.compile
        monkeypatch.setattr(torch, "compile", lambda losses, **options: usual(losses, backend="aot_eager", **options))
    choice = {"compile": how == "compiled", "cuda_graph": how == "recorded"}
    return Settings(**{**vars(HOW), **choice})


def assert_trained(method, history, network, device):
    """Check that a training is that of the CPU, up to the rounding of another device."""
    expected, after = train_on_the_cpu(network)
    assert {torch.device(row["device"]) for row in history} == {pick_device(device)}
    for row, other in zip(history, expected, strict=True):
        for name in ("train_marginal", "train_conditional"):
            assert row[name] == pytest.approx(other[name], rel=1e-3)
    trained = {name: value.cpu() for name, value in weights(method).items()}
    torch.testing.assert_close(trained, after, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", ["eager", "compiled", "recorded"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_trains_as_on_the_cpu(monkeypatch, network, how, device):
    method = make(network)
    history = fit(method, draw(network), change(monkeypatch, how, device), device=device)
    recorded = how == "recorded" and pick_device(device).type == "cpu"
    assert history[-1]["execution"] == ("eager" if recorded else how)
    assert_trained(method, history, network, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("first", "then"), [("compiled", "eager"), ("eager", "compiled"), ("recorded", "recorded")])
@pytest.mark.parametrize("network", ["vit", "resnet"])
def test_an_interrupted_training_resumes(monkeypatch, tmp_path, network, first, then, device):
    kept, data = Checkpoint(tmp_path / "state.pt", every=1), draw(network)
    start, rest = (change(monkeypatch, how, device) for how in (first, then))
    interrupted(fit, 6, make(network), data, start, device=device, checkpoint=kept)
    method = make(network)
    assert_trained(method, fit(method, data, rest, device=device, checkpoint=kept), network, device)


@on_a_gpu
@pytest.mark.parametrize(("first", "then"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_training_resumes_on_another_device(tmp_path, first, then):
    kept, data, method = Checkpoint(tmp_path / "state.pt", every=1), draw("vit"), make("vit")
    interrupted(fit, 6, make("vit"), data, HOW, device=first, checkpoint=kept)
    history = fit(method, data, HOW, device=then, checkpoint=kept)
    assert [row["device"] for row in history] == [first, then, then]
    trained = {name: value.cpu() for name, value in weights(method).items()}
    torch.testing.assert_close(trained, train_on_the_cpu("vit")[1], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_auto_trains_saves_and_predicts(tmp_path, device):
    """The folder of a model that a GPU trained is read without one."""
    digits = load_digits_annotated()
    model = PrivilegedClassifier(epochs=3, device=device, random_state=0)
    model.fit(digits.X_train[:200], digits.y_train[:200], privileged=digits.privileged[:200])
    p = model.predict_proba(digits.X_test)
    assert {torch.device(row["device"]) for row in model.history_} == {pick_device(device)}
    assert next(model.predictor_.parameters()).device.type == pick_device(device).type
    model.save(tmp_path / "model")
    read = lupi.load(tmp_path / "model", device="cpu")
    assert read.predict_proba(digits.X_test) == pytest.approx(p, abs=1e-5)
    alone = PrivilegedClassifier(epochs=3, device="cpu", random_state=0)
    alone.fit(digits.X_train[:200], digits.y_train[:200], privileged=digits.privileged[:200])
    agree = (alone.predict(digits.X_test) == model.predict(digits.X_test)).mean()
    assert agree == 1 if pick_device(device).type == "cpu" else agree > 0.9
