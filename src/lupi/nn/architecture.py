"""The architecture of a pretrained image trunk as JSON, so that a saved model can be rebuilt without a download."""

import json
from typing import Any, TypedDict

import torch

from lupi._internal.pretrained import ImageTrunk, import_extra


class Architecture(TypedDict):
    """The architecture of an image trunk, without its weights."""

    config: dict[str, Any]
    """The configuration of the Hugging Face model."""
    pooler: bool
    """Whether the model has a pooling layer."""
    size: list[int]
    """Height and width of the images."""


def describe_trunk(trunk: Any) -> Architecture:
    """Return the architecture of an image trunk. It contains no paths and no weights.

    Parameters
    ----------
    trunk : ImageTrunk
        An image model of Hugging Face, from `lupi.nn.pretrained`.
    """
    config = getattr(getattr(trunk, "model", None), "config", None)
    if not isinstance(trunk, ImageTrunk) or config is None:
        raise ValueError("Expected `trunk` to be an image model of Hugging Face, but it is another model.")
    facts = json.loads(config.to_json_string(use_diff=True))
    for name in ("_name_or_path", "_commit_hash", "transformers_version"):
        facts.pop(name, None)
    pooler = getattr(trunk.model, "pooler", None) is not None
    return {"config": facts, "pooler": pooler, "size": list(trunk.example)}


def build_trunk(architecture: Architecture) -> ImageTrunk:
    """Make an image trunk with random weights. Only code from the extra `vision` is run."""
    transformers = import_extra("transformers", "vision")
    facts = dict(architecture["config"])
    config = transformers.AutoConfig.for_model(facts.pop("model_type"), **facts)
    with torch.device("cpu"):
        model = transformers.AutoModel.from_config(config)
    if not architecture["pooler"]:
        model.register_module("pooler", None)
    channels = int(getattr(config, "num_channels", 3))
    height, width = architecture["size"]
    return ImageTrunk(model.float().eval(), [0.0] * channels, [1.0] * channels, None, (height, width)).eval()
