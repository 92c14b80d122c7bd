"""Load pretrained models: image and text models from Hugging Face, image models from timm."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.evaluation import evaluation

HALF = (0.5, 0.5, 0.5)
"""Default mean and standard deviation of the colour channels, on a scale from 0 to 1."""
SIDE = 224
"""Default height and width of images."""
Size = tuple[int, int]
"""Height and width."""


class ImageTrunk(nn.Module):
    """An image model that normalizes images [n, 3, height, width] with values from 0 to 255."""

    mean: Tensor
    std: Tensor

    def __init__(
        self, model: nn.Module, mean: Sequence[float], std: Sequence[float], size: Size | None, example: Size
    ) -> None:
        super().__init__()
        self.model, self.size, self.example = model, size, size or example
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1))
        self.features = count_features(self, torch.zeros(1, len(mean), *(size or example)))

    def forward(self, x: Tensor) -> Tensor:
        """Return features, [n, features]."""
        x = (x.to(self.mean.dtype) - self.mean) / self.std
        if self.size is not None and x.shape[-2:] != self.size:
            smaller = self.size[0] < x.shape[-2] or self.size[1] < x.shape[-1]
            x = F.interpolate(x, self.size, mode="bilinear", antialias=smaller)
        return pool(self.model(x))

    def extra_repr(self) -> str:
        """Show the size."""
        return "" if self.size is None else f"size={self.size}"


class TextTrunk(nn.Module):
    """Average the last layer of a Hugging Face model over the tokens, given token ids [n, tokens].

    The input may also be the output of a tokenizer, a dict with `input_ids`, `attention_mask` and others.
    """

    def __init__(self, model: nn.Module, pad: int | None) -> None:
        super().__init__()
        self.model, self.pad = model, pad
        self.features = count_features(self, torch.full((1, 2), 0 if pad else 1))

    def forward(self, x: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Return features, [n, features]."""
        tokens = {"input_ids": x} if isinstance(x, Tensor) else dict(x)
        ids = tokens["input_ids"]
        mask = tokens.setdefault("attention_mask", (ids != (-1 if self.pad is None else self.pad)).to(ids.dtype))
        states: Tensor = self.model(**tokens).last_hidden_state
        weight = mask.unsqueeze(-1).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1).clamp(min=1)


def load_pretrained(name: str, size: Size | None = None, **options: Any) -> ImageTrunk | TextTrunk:
    """Load a model by its name; see `lupi.nn.pretrained`."""
    if name.startswith("timm:"):
        return from_timm(name.removeprefix("timm:"), size, options)
    return from_hub(name, size, options)


def from_hub(name: str, size: Size | None, options: dict[str, Any]) -> ImageTrunk | TextTrunk:
    """Load a Hugging Face model as a trunk."""
    transformers = import_extra("transformers", "vision")
    from transformers.models.auto.image_processing_auto import get_image_processor_config

    transformers.utils.logging.disable_progress_bar()
    try:
        transformers.AutoConfig.from_pretrained(name)  # without a network, fails in half the time of the next line
        model, report = transformers.AutoModel.from_pretrained(name, output_loading_info=True, **options)
        scaling = get_image_processor_config(name, **options) if model.main_input_name == "pixel_values" else {}
    except (OSError, ValueError) as error:
        raise ValueError(f"Expected `name` to be a Hugging Face model, but got {name!r}: {one_line(error)}") from error
    takes, config = model.main_input_name, model.config
    if takes not in ("pixel_values", "input_ids") or hasattr(config, "vision_config"):
        raise ValueError(f"Expected `name` to be an image or a text model, but {name!r} is a {type(model).__name__}.")
    unused = takes == "input_ids" or any("pooler" in key for key in report["missing_keys"])
    if unused and "add_pooling_layer" in inspect.signature(type(model).__init__).parameters:
        model.register_module("pooler", None)
    if takes == "input_ids":
        if size is not None:
            raise ValueError(f"Expected `size` to be None for a text model, but got {size}.")
        encoder = model.get_encoder() if config.is_encoder_decoder else model
        return TextTrunk(encoder.float().eval(), getattr(config, "pad_token_id", None)).eval()
    mean, std = colour_statistics(scaling)
    side = getattr(config, "image_size", SIDE)
    example = (side, side) if isinstance(side, int) else (side[0], side[1])
    return ImageTrunk(model.float().eval(), mean, std, size, example).eval()


def from_timm(name: str, size: Size | None, options: dict[str, Any]) -> ImageTrunk:
    """Load a timm model as a trunk."""
    timm = import_extra("timm", "vision")
    try:
        model = timm.create_model(name, **{"pretrained": True, **options, "num_classes": 0})
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"Expected `name` to be a timm model, but got {name!r}: {one_line(error)}") from error
    own = model.pretrained_cfg
    mean, std = colour_statistics({"image_mean": own["mean"], "image_std": own["std"]})
    return ImageTrunk(model.float().eval(), mean, std, size, own["input_size"][-2:]).eval()


def colour_statistics(scaling: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation per channel, from 0 to 255, given a Hugging Face image processor's options."""
    unit = 1 / scaling.get("rescale_factor", 1 / 255) if scaling.get("do_rescale", True) else 1.0
    mean = scaling.get("image_mean") or HALF
    std = scaling.get("image_std") or HALF
    if not scaling.get("do_normalize", True):
        mean, std = [0.0 for _ in mean], [1.0 for _ in std]
    elif scaling.get("include_top"):  # EfficientNet's processor divides by std twice
        std = [value**2 for value in std]
    zero = 1.0 if scaling.get("rescale_offset") else 0.0  # EfficientNet's also maps to [−1, 1] first
    return [(value + zero) * unit for value in mean], [value * unit for value in std]


def pool(outputs: Any) -> Tensor:
    """Return the features from the output of an image model: its own pooling, or the mean over tokens or positions."""
    if isinstance(outputs, Tensor):
        return outputs
    own: Tensor | None = getattr(outputs, "pooler_output", None)
    if own is not None:
        return own.flatten(1)
    states: Tensor = outputs.last_hidden_state
    return states.mean(1) if states.ndim == 3 else states.flatten(2).mean(2)


def count_features(trunk: nn.Module, x: Tensor) -> int:
    """Return the width of a trunk's output."""
    with evaluation(trunk):  # do not update the running statistics of batch norm
        return int(trunk(x).shape[1])


def import_extra(name: str, extra: str) -> Any:
    """Import a module that an extra installs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"Expected the extra `{extra}` (pip install 'lupi[{extra}]'), but {error}.") from error


def one_line(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())
