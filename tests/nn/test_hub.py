"""Pretrained trunks: with small stand-ins everywhere, with tiny models of random weights where transformers is."""

import copy
import dataclasses
import json
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lupi import methods
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.nn import MLP, Parts, Projected, pretrained, resnet, token_ids
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit

IMAGES = torch.randint(256, (12, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
TWO_STEPS = Settings(epochs=1, batch_size=6, learning_rate=0.01)


def scaled(images, mean=MEAN, std=STD):
    """As an image processor does, in numpy."""
    mean, std = (np.reshape(values, (3, 1, 1)) for values in (mean, std))
    return torch.from_numpy(((images.numpy() / 255 - mean) / std).astype(np.float32))


def make_annotations(x):
    generator = torch.Generator().manual_seed(1)
    n = x.shape[0]
    return Annotations(
        x, torch.arange(n), torch.randn(n, 3, generator=generator), torch.randint(2, (n,), generator=generator)
    )


def make_parts(trunk):
    return Parts(
        lambda: Projected(copy.deepcopy(trunk), 6),
        features=6,
        privileged=3,
        outputs=2,
        likelihood=Categorical(),
        tower_widths=(5, 4),
    )


def vector(module):
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


# -------------------------------------------------------------------------------- without transformers


def test_projection():
    trunk = Projected(MLP(5, (8,), 7), width=3)
    x = torch.randn(4, 5)
    assert (MLP(5, (8,)).features, MLP(5, ()).features, trunk[0].features, trunk.features) == (8, 5, 7, 3)
    torch.testing.assert_close(trunk(x), (trunk[0](x) @ trunk[1].weight.T + trunk[1].bias).relu())
    assert Projected(MLP(5)).features == 64
    with pytest.raises(ValueError, match=r"`trunk` .*`features`.*Linear"):
        Projected(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: pretrained("some/model"), "transformers", "vision"),
        (lambda: token_ids("some/model", ["a"]), "transformers", "text"),
        (lambda: pretrained("timm:some"), "timm", "vision"),
    ],
)
def test_an_extra_is_missing(monkeypatch, make, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"`{extra}`.*'lupi\[{extra}\]'"):
        make()


# -------------------------------------------------------------------------------- timm, by a stand-in


@pytest.fixture
def timm(monkeypatch):
    """Not timm, but a module with the two things that are used of it."""
    fake = ModuleType("timm")
    fake.asked = []

    def create_model(name, pretrained=False, num_classes=1000, **options):
        fake.asked.append((name, pretrained, num_classes, options))
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        model = nn.Sequential(nn.Conv2d(3, 5, 4, 4), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1), nn.Flatten()).half()
        model.pretrained_cfg = {"mean": tuple(MEAN), "std": tuple(STD), "input_size": (3, 24, 24)}
        return model

    fake.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", fake)
    return fake


def test_timm(timm):
    trunk = pretrained("timm:tiny", drop_rate=0.1)
    assert timm.asked == [("tiny", True, 0, {"drop_rate": 0.1})]
    assert trunk.features == 5
    assert not any(module.training for module in trunk.modules())
    assert {parameter.dtype for parameter in trunk.parameters()} == {torch.float32}
    torch.testing.assert_close(trunk(IMAGES), trunk.model(scaled(IMAGES)), rtol=1e-5, atol=1e-5)
    pretrained("timm:tiny", pretrained=False)
    assert timm.asked[1] == ("tiny", False, 0, {})
    assert pretrained("timm:tiny", size=8)(IMAGES).shape == (12, 5)
    tram = methods.build("tram", make_parts(trunk))
    fit(tram, make_annotations(IMAGES), TWO_STEPS)
    assert not torch.equal(vector(tram.trunk[0]), vector(trunk))


@pytest.mark.usefixtures("timm")
def test_timm_does_not_know_the_name():
    with pytest.raises(ValueError, match=r"`name` .*'huge': Unknown model \(huge\)"):
        pretrained("timm:huge")


# -------------------------------------------------------------------------------- Hugging Face, tiny models


ITSELF = pytest.mark.filterwarnings("ignore", "error:There is a performance drop")  # what transformers says of itself
FEW = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "cast"]


@pytest.fixture
def hub():
    return pytest.importorskip("transformers", reason="needs the extra `vision`")


def make_model(hub, kind):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        if kind == "mobilenet":
            config = hub.MobileNetV1Config(depth_multiplier=0.05, min_depth=4, image_size=32, initializer_range=0.8)
            return hub.MobileNetV1Model(config).eval()
        if kind == "resnet":
            return hub.ResNetModel(hub.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])).eval()
        if kind == "vit":
            return hub.ViTModel(hub.ViTConfig(**FEW, image_size=32, patch_size=8)).eval()
        return hub.BertModel(hub.BertConfig(**FEW, vocab_size=len(WORDS))).eval()


def save(model, folder, processor=None):
    model.save_pretrained(folder)
    if processor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def save_bert(hub, folder):
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    hub.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    model = make_model(hub, "bert")
    return model, save(model, folder)


@ITSELF
@pytest.mark.parametrize(("kind", "features"), [("mobilenet", 51), ("resnet", 16), ("vit", 8)])
def test_a_model_of_images(hub, tmp_path, kind, features):
    model = make_model(hub, kind)
    trunk = pretrained(save(model, tmp_path, {"image_mean": MEAN, "image_std": STD}))
    assert trunk.features == features
    assert not any(module.training for module in trunk.modules())
    with torch.no_grad():
        own = model(scaled(IMAGES)).pooler_output.flatten(1)
        torch.testing.assert_close(trunk(IMAGES), own, rtol=1e-3, atol=1e-5)
    assert own.shape == (12, features)
    assert own.std(0).mean() > 1e-4  # the images are told apart
    trunk.train()(IMAGES).sum().backward()
    without = [name for name, parameter in trunk.named_parameters() if parameter.grad is None]
    assert without == []

    plain = pretrained(str(save(model, tmp_path / "plain")))
    with torch.no_grad():
        half = model(scaled(IMAGES, [0.5] * 3, [0.5] * 3)).pooler_output.flatten(1)
        torch.testing.assert_close(plain(IMAGES), half, rtol=1e-3, atol=1e-5)
    assert not torch.equal(half, own)
    plain.load_state_dict(trunk.eval().state_dict())  # with the scaling
    assert torch.equal(plain(IMAGES), trunk(IMAGES))


@ITSELF
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ViTImageProcessor", {"image_mean": MEAN, "image_std": STD}),
        ("ViTImageProcessor", {"do_normalize": False}),
        ("EfficientNetImageProcessor", {"image_mean": MEAN, "image_std": STD}),
        ("EfficientNetImageProcessor", {"rescale_offset": True, "rescale_factor": 1 / 127.5, "include_top": False}),
    ],
)
def test_images_are_scaled_as_by_the_processor(hub, tmp_path, kind, options):
    pytest.importorskip("PIL")
    save(make_model(hub, "vit"), tmp_path, {"image_processor_type": kind, "do_resize": False, **options})
    try:
        processor = hub.AutoImageProcessor.from_pretrained(tmp_path)
    except ImportError as error:
        pytest.skip(f"the processor needs more: {error}")
    processor.save_pretrained(tmp_path)  # with all that it sets itself
    trunk = pretrained(tmp_path)
    own = processor(list(IMAGES.numpy()), return_tensors="pt", input_data_format="channels_first")["pixel_values"]
    torch.testing.assert_close((IMAGES - trunk.mean) / trunk.std, own.float(), rtol=1e-4, atol=1e-4)


@ITSELF
def test_a_pooler_without_weights_is_not_used(hub, tmp_path):
    config = hub.ViTConfig(**FEW, image_size=32, patch_size=8)
    model = hub.ViTForImageClassification(config).eval()  # has none
    first, second = (pretrained(save(model, tmp_path)) for _ in range(2))
    with torch.no_grad():
        states = model.vit(scaled(IMAGES, [0.5] * 3, [0.5] * 3)).last_hidden_state
        torch.testing.assert_close(first(IMAGES), states.mean(1), rtol=1e-4, atol=1e-5)
    assert torch.equal(vector(first), vector(second))
    assert not [name for name, _ in first.named_parameters() if "pooler" in name]


@ITSELF
def test_sizes(hub, tmp_path):
    folder = save(make_model(hub, "vit"), tmp_path)
    small = F.interpolate(IMAGES.float(), (16, 16), mode="bilinear", antialias=True)
    torch.testing.assert_close(
        pretrained(folder, size=32)(small), pretrained(folder)(F.interpolate(small, (32, 32), mode="bilinear"))
    )
    assert pretrained(save(make_model(hub, "resnet"), tmp_path / "resnet"), size=(24, 40))(IMAGES).shape == (12, 16)


@ITSELF
def test_half_precision_is_trained_in_single(hub, tmp_path):
    trunk = pretrained(save(make_model(hub, "resnet").half(), tmp_path))
    assert {parameter.dtype for parameter in trunk.parameters()} == {torch.float32}


@ITSELF
@pytest.mark.parametrize("kind", ["mobilenet", "resnet", "vit"])
def test_tram_trains_copies_and_replicas(hub, tmp_path, kind):
    trunk = pretrained(save(make_model(hub, kind), tmp_path), attn_implementation="eager")
    trunk.double()  # in which a step of Adam is the same however it is computed
    start, before, data = vector(trunk), trunk(IMAGES), make_annotations(IMAGES)
    data = dataclasses.replace(data, a=data.a.double())
    torch.manual_seed(0)
    alone = [methods.build("tram", make_parts(trunk)).double() for _ in range(2)]
    together = copy.deepcopy(alone)
    torch.testing.assert_close(alone[0].trunk[0](IMAGES), before)
    for seed, member in enumerate(alone):
        fit(member, data, TWO_STEPS, seed=seed)
    assert torch.equal(vector(trunk), start)  # copies share nothing
    assert not torch.allclose(vector(alone[0].trunk[0]), start)
    assert not torch.allclose(vector(alone[0].trunk[0]), vector(alone[1].trunk[0]))
    assert alone[0].predictor()(IMAGES).shape == (12, 2)

    fit(Replicas(together), StackedAnnotations([data, data]), TWO_STEPS, seed=(0, 1))
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(dict(one.state_dict()), dict(other.state_dict()), rtol=1e-5, atol=1e-6)


@ITSELF
def test_a_model_of_texts(hub, tmp_path):
    model, folder = save_bert(hub, tmp_path)
    trunk = pretrained(folder)
    x = token_ids(folder, ["good cast", "bad", "good cast bad cast bad"])
    assert x.dtype == torch.int64
    assert x.tolist() == [[2, 5, 7, 3, 0, 0, 0], [2, 6, 3, 0, 0, 0, 0], [2, 5, 7, 6, 7, 6, 3]]
    assert trunk.features == 8
    with torch.no_grad():
        rows = trunk(x)
        states = model(x[:1, :4]).last_hidden_state  # no padding, no mask
        torch.testing.assert_close(rows[:1], states.mean(1), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(trunk(token_ids(folder, ["bad"])), rows[1:2], rtol=1e-4, atol=1e-5)
        tokens = hub.BertTokenizer.from_pretrained(folder)(["bad", "good cast"], padding=True, return_tensors="pt")
        torch.testing.assert_close(trunk(dict(tokens)), rows[[1, 0]], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(trunk({"input_ids": x}), rows)
    assert token_ids(folder, ["good cast bad"], length=4).tolist() == [[2, 5, 7, 3]]
    assert trunk(token_ids(folder, ["bad " * 600])).shape == (1, 8)  # its tokenizer declares no maximum

    trunk.train()(x).sum().backward()
    assert [name for name, parameter in trunk.named_parameters() if parameter.grad is None] == []
    other = copy.deepcopy(trunk)
    other.load_state_dict(pretrained(folder).state_dict())
    torch.testing.assert_close(other.eval()(x), rows)
    tram = methods.build("tram", make_parts(trunk))
    fit(tram, make_annotations(x.repeat(4, 1)), TWO_STEPS)
    assert not torch.equal(vector(tram.trunk[0]), vector(trunk))


@ITSELF
@pytest.mark.parametrize("accumulate", [1, 3])
def test_tokens_as_a_dict_train_like_ids(hub, tmp_path, accumulate):
    """What a tokenizer returns, from the training set to predictions; the trunk has a learning rate of its own."""
    _, folder = save_bert(hub, tmp_path)
    texts = ["good cast", "bad", "good cast bad cast bad"] * 4
    tokens = dict(hub.BertTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt"))
    ids, trunk = token_ids(folder, texts), pretrained(folder)
    for module in trunk.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    torch.manual_seed(0)
    one = methods.build("tram", make_parts(trunk)).double()
    other, data = copy.deepcopy(one), make_annotations(ids)
    data = dataclasses.replace(data, a=data.a.double())
    fit(one, data, dataclasses.replace(TWO_STEPS, learning_rates={"trunk": 1e-4}))
    how = dataclasses.replace(TWO_STEPS, learning_rates={"trunk": 1e-4}, accumulate=accumulate)
    fit(other, dataclasses.replace(data, x=tokens), how)
    torch.testing.assert_close(dict(other.state_dict()), dict(one.state_dict()), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(other.predictor()(tokens), one.predictor()(ids), rtol=1e-5, atol=1e-7)


@ITSELF
def test_only_the_encoder_of_an_encoder_and_decoder(hub, tmp_path):
    config = hub.T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    model = hub.T5Model(config).eval()
    trunk = pretrained(save(model, tmp_path))
    x = torch.tensor([[3, 4, 5]])
    torch.testing.assert_close(trunk(x), model.encoder(x).last_hidden_state.mean(1))
    assert not [name for name, _ in trunk.named_parameters() if "decoder" in name]


@ITSELF
def test_what_hugging_face_does_not_have(hub, tmp_path):
    nothing = tmp_path / "nothing"
    with pytest.raises(ValueError, match=r"`name` .*'\S+nothing': ") as error:
        pretrained(nothing)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"`name` .*tokenizer.*'\S+nothing': "):
        token_ids(nothing, ["a"])
    _, folder = save_bert(hub, tmp_path / "bert")
    with pytest.raises(ValueError, match=r"`size` .*\(32, 32\)"):
        pretrained(folder, size=32)
    hub.BertConfig(**FEW, vocab_size=len(WORDS), pad_token_id=4).save_pretrained(folder)
    with pytest.raises(ValueError, match="padding id, but got 4 and 0"):
        token_ids(folder, ["a"])


@ITSELF
def test_a_model_of_images_and_texts(hub, tmp_path):
    config = hub.CLIPConfig(
        text_config={**FEW, "vocab_size": 9}, vision_config={**FEW, "image_size": 32, "patch_size": 8}
    )
    save(hub.CLIPModel(config), tmp_path)
    with pytest.raises(ValueError, match=r"`name` .*is a CLIPModel"):
        pretrained(tmp_path)


@pytest.mark.usefixtures("hub")
def test_resnet_50_and_a_quarter_of_it():
    """The published ResNet-50 has 25 557 032 parameters, 2 049 000 of them in its head."""
    count, small = (sum(part.numel() for part in resnet(width).parameters()) for width in (1.0, 0.5))
    assert count == 25_557_032 - 2_049_000
    assert small / count == pytest.approx(0.25, abs=0.01)


@pytest.mark.usefixtures("hub")
def test_resnet_normalizes_images_and_starts_at_random():
    torch.manual_seed(0)
    one, other = resnet(1 / 8, (1, 1)).eval(), resnet(1 / 8, (1, 1)).eval()
    x = scaled(IMAGES, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    expected = one.model(x).last_hidden_state.mean((2, 3))
    torch.testing.assert_close(one(IMAGES), expected, atol=1e-4, rtol=1e-4)
    assert one(IMAGES).shape == (12, one.features)
    assert not torch.equal(one(IMAGES), other(IMAGES))
