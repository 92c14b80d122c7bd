"""Fine-tune a text encoder with TRAM and with `auto`, and an image model: slowly in the trunk, fast in what is new.

``python examples/fine_tuning.py TEXT_MODEL IMAGE_MODEL`` takes names on the Hugging Face hub, or folders. Without them,
it makes tiny models of random weights, and needs no download. It trains on a GPU if there is one. Needs the extras
`text` and `vision`.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lupi import PrivilegedClassifier
from lupi.nn import pretrained, token_ids


def fine_tune(
    method: str, trunk: nn.Module, x: Tensor, y: Tensor, privileged: Tensor, epochs: int
) -> PrivilegedClassifier:
    """Train a method on a pretrained trunk."""
    model = PrivilegedClassifier(
        method,
        trunk=trunk,
        epochs=epochs,
        batch_size=32,
        learning_rate=3e-3,  # of the tower and the heads
        training={
            "learning_rates": {"trunk": 1e-5},  # 0 freezes it
            "optimizer": "adamw",
            "weight_decay": 0.01,
            "schedule": "cosine",
            "warmup": 0.5,
            "accumulate": 2,
            "precision": "bfloat16" if torch.cuda.is_available() else "float32",
        },
        verbose=True,  # a progress bar
        random_state=0,
    )
    return model.fit(x, y, privileged=privileged)


def main(text_model: str | None = None, image_model: str | None = None, *, epochs: int = 20) -> None:
    """Fine-tune both on 200 reviews and 200 images with noisy labels; the annotators' seconds are privileged."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (200,), generator=generator)
    seconds = 5 * torch.rand(200, 1, generator=generator)
    hasty = (seconds[:, 0] < 1) & (torch.rand(200, generator=generator) < 0.5)
    given = torch.where(hasty, 1 - y, y)
    reviews = [("a good cast", "a bad cast")[label] for label in y.tolist()]
    images = torch.randint(128, (200, 3, 32, 32), generator=generator) + 127 * y.reshape(-1, 1, 1, 1)

    with tempfile.TemporaryDirectory() as folder:
        text_model = text_model or save_tiny_text_model(Path(folder, "text"))
        image_model = image_model or save_tiny_image_model(Path(folder, "image"))
        x, new = token_ids(text_model, reviews), token_ids(text_model, ["a good cast", "a bad cast"])
        for method in ("tram", "auto"):
            of_texts = fine_tune(method, pretrained(text_model), x, given, seconds, epochs)
            print(f"{method}, p(bad) of a good and a bad cast:", of_texts.predict_proba(new)[:, 1].round(2))
        of_images = fine_tune("tram", pretrained(image_model), images, given, seconds, epochs)
    p = of_images.predict_proba(images[y.argsort()[[0, -1]]])[:, 1]
    print("tram, p(bright) of a dark and a bright image:", p.round(2))


def save_tiny_text_model(folder: Path) -> str:
    """Save a text encoder of random weights, with its tokenizer."""
    import transformers

    folder.mkdir()
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "cast"]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    config = transformers.BertConfig(**sizes, vocab_size=len(words), initializer_range=0.5)
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


def save_tiny_image_model(folder: Path) -> str:
    """Save an image model of random weights."""
    import transformers

    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    transformers.ResNetModel(config).save_pretrained(folder)
    return str(folder)


if __name__ == "__main__":
    main(*sys.argv[1:3])
