"""Pretrained trunks φ(x): image and text models from Hugging Face, image models from timm.

They are meant to be fine-tuned, so all weights get gradients. Load a model once and copy it for every seed::

    trunk = pretrained("google/mobilenet_v1_1.0_224")
    parts = Parts(lambda: Projected(copy.deepcopy(trunk)), features=64, ...)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lupi._internal.pretrained import (
    SIDE,
    ImageTrunk,
    Size,
    TextTrunk,
    colour_statistics,
    import_extra,
    load_pretrained,
    one_line,
)
from lupi._internal.tokens import limit_tokens

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
"""Mean and standard deviation of ImageNet's colour channels."""


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
    return load_pretrained(str(name), (size, size) if isinstance(size, int) else size, **options)


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
    return ImageTrunk(transformers.ResNetModel(config), mean, std, None, (SIDE, SIDE))


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
        config = transformers.AutoConfig.from_pretrained(str(name))
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(name))
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
