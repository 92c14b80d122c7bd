"""Pretrained trunks φ(x): image and text models from Hugging Face, image models from timm.

They are meant to be fine-tuned, so all weights get gradients. Load a model once and copy it for every seed::

    trunk = pretrained("google/mobilenet_v1_1.0_224")
    parts = Parts(lambda: Projected(copy.deepcopy(trunk)), features=64, ...)
"""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.checks import import_extra
from lupi._internal.devices import evaluation
from lupi._internal.sanitizing import one_line

GREY = (0.5, 0.5, 0.5)
"""Default mean and standard deviation of the colour channels, on a scale from 0 to 1."""
NO_CODE: dict[str, Any] = {"trust_remote_code": False}
"""Without this option, transformers asks whether to run the code that comes with a model."""
HUB_SECONDS = 10.0
"""Seconds to wait for the first answer of the Hugging Face hub."""
IMAGE_SIDE = 224
"""Default height and width of images."""
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
"""Mean and standard deviation of ImageNet's colour channels."""
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


def pretrained(name: str | Path, *, size: int | Size | None = None, **options: Any) -> ImageTrunk | TextTrunk:
    """Load a pretrained model as a trunk, in evaluation mode and in float32.

    An image model takes images [n, 3, height, width] with values from 0 to 255, and normalizes them as in its
    pretraining. A text model takes token ids (`token_ids`). The attribute `features` of the trunk is the width of φ(x).
    This needs the extra `vision`, or `text` for text models only.

    To train several seeds together (`lupi.training.fit_seeds`), a vision transformer needs
    `attn_implementation="eager"`.

    Parameters
    ----------
    name : str or Path
        A name on the Hugging Face Hub, a folder with such a model, or ``"timm:"`` followed by the name of a timm model.
    size : int or (int, int), optional
        Height and width to which images are resized; by default they are not resized.
    **options : Any
        Passed to Hugging Face's `from_pretrained` (`revision`, `attn_implementation`, ...) or to `timm.create_model`.

    Examples
    --------
    >>> trunk = pretrained("microsoft/resnet-50", size=224)  # doctest: +SKIP
    >>> trunk.features  # doctest: +SKIP
    2048
    """
    size = (size, size) if isinstance(size, int) else size
    if str(name).startswith("timm:"):
        return from_timm(str(name).removeprefix("timm:"), size, options)
    return from_hub(str(name), size, options)


def resnet(width: float = 1.0, depths: Sequence[int] = (3, 4, 6, 3)) -> ImageTrunk:
    """Make an image trunk: a ResNet with bottleneck blocks and random weights, by default a ResNet-50.

    The trunk takes images [n, 3, height, width] with values from 0 to 255, and normalizes them as is usual for
    ImageNet. This needs the extra `vision`.

    Parameters
    ----------
    width : float
        Factor that multiplies the number of channels.
    depths : sequence of int
        Number of blocks in each stage; a stage has twice as many channels as the one before.

    Examples
    --------
    >>> trunk = resnet(width=1 / 8, depths=(1, 1))
    >>> trunk.features, trunk(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
    (64, torch.Size([2, 64]))
    """
    transformers = import_extra("transformers", "vision")
    first = max(8, int(64 * width))
    config = transformers.ResNetConfig(
        embedding_size=first, hidden_sizes=[4 * first * 2**stage for stage in range(len(depths))], depths=list(depths)
    )
    mean, std = colour_statistics(IMAGENET)
    return ImageTrunk(transformers.ResNetModel(config), mean, std, None, (IMAGE_SIDE, IMAGE_SIDE))


def token_ids(name: str | Path, texts: Sequence[str], *, length: int | None = None) -> Tensor:
    """Tokenize texts for a pretrained model, and return token ids [texts, tokens], padded to the longest text.

    Parameters
    ----------
    name : str or Path
        The same as for `pretrained`.
    texts : sequence of str
        The texts.
    length : int, optional
        Maximum number of tokens per text; longer texts are truncated. By default, the maximum of the model.

    Examples
    --------
    >>> x = token_ids("google-bert/bert-base-uncased", ["a good cast", "bad"])  # doctest: +SKIP
    >>> pretrained("google-bert/bert-base-uncased")(x).shape  # doctest: +SKIP
    torch.Size([2, 768])
    """
    transformers = import_extra("transformers", "text")
    try:
        config = transformers.AutoConfig.from_pretrained(str(name), **hub_options(str(name)))
        tokenizer = load_tokenizer(str(name))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"Expected `name` to be a model with a Hugging Face tokenizer, but got {str(name)!r}: {one_line(error)}"
        ) from error
    pad = getattr(config, "pad_token_id", None)
    if pad is None or tokenizer.pad_token_id != pad:
        raise ValueError(
            f"Expected the model and tokenizer of {str(name)!r} to share a padding id, but got {pad} and "
            f"{tokenizer.pad_token_id}."
        )
    limit = limit_tokens(tokenizer, config) if length is None else length
    encoded = tokenizer(list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt")
    return torch.as_tensor(encoded["input_ids"])


def hub_options(name: str) -> dict[str, Any]:
    """Return options that every `from_pretrained` gets: no code, and no hub that does not answer.

    For a file that is not in its cache, transformers would ask such a hub again for a minute.
    """
    if Path(name).is_dir():
        return NO_CODE
    from huggingface_hub import model_info, try_to_load_from_cache

    try:
        model_info(name, timeout=HUB_SECONDS)
    except ValueError:
        pass  # no name that the hub could have: transformers says so
    except Exception as error:  # of the library that makes the request
        response = getattr(error, "response", None)
        if response is None or response.status_code >= 500:
            if not isinstance(try_to_load_from_cache(name, "config.json"), str):
                raise OSError("the Hugging Face hub does not answer, and its cache has no such model.") from error
            return NO_CODE | {"local_files_only": True}
    return NO_CODE


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of a Hugging Face model."""
    return import_extra("transformers", "text").AutoTokenizer.from_pretrained(name, **hub_options(name))


def limit_tokens(tokenizer: Any, config: Any) -> int | None:
    """Return the maximum number of tokens per text; None if the tokenizer knows it, or if there is none.

    A tokenizer that declares no maximum has an absurdly large one, with which no text is truncated.
    """
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is None or tokenizer.model_max_length <= positions:
        return None  # the tokenizer's own
    return positions - (getattr(config, "pad_token_id", None) or 0) - 1  # RoBERTa's start after the padding id


def from_hub(name: str, size: Size | None, options: dict[str, Any]) -> ImageTrunk | TextTrunk:
    """Load a Hugging Face model as a trunk."""
    transformers = import_extra("transformers", "vision")
    from transformers.models.auto.image_processing_auto import get_image_processor_config

    transformers.utils.logging.disable_progress_bar()
    try:
        options = hub_options(name) | options
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
    side = getattr(config, "image_size", IMAGE_SIDE)
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
    mean = scaling.get("image_mean") or GREY
    std = scaling.get("image_std") or GREY
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
