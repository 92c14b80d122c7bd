"""Fine-tune a text encoder on LLM judges' verdicts, beside frozen embeddings and the judges: ``… DATA --encoder DIR``.

``python -m benchmarks.fine_tuning DATA --encoder DIR`` reads `civil_judges` in DATA and a Hugging Face text encoder,
such as all-MiniLM-L6-v2, in DIR; ``--tiny`` is for a CPU. In each draw, five of the twenty judges have judged the
comments, and who gave a verdict is privileged. Models are scored on the comments of `test.parquet`, with the labels of
people, which nothing else has seen. Judges have not seen those comments, so they are scored on the ones that they
judged. The best judge is the one that agrees most often with the majority of the others.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.image_loading import finish
from benchmarks.llm_judges import Array, read_judges, score
from lupi import PrivilegedClassifier
from lupi.nn import pretrained, token_ids
from lupi.tabular.text_encoders import make_text_encoder
from lupi.training import pick_device

JUDGES, TOKENS, BATCH = 5, 128, 64
METHODS = {"no-pi": "No PI", "tram": "TRAM", "auto": "auto"}
TRUNK_RATE, RATE, FROZEN_EPOCHS = 5e-5, 1e-3, 20


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", required=True, help="folder of a Hugging Face text encoder")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--comments", type=int, default=3497, help="number of comments to train on")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of fine-tuning")
    parser.add_argument(
        "--accumulate", type=int, default=1, help=f"parts of a batch of {BATCH} comments, to save memory"
    )
    parser.add_argument("--tiny", action="store_true", help="60 comments, also of the test set, one epoch and one seed")
    options = parser.parse_args(arguments)
    if options.tiny:
        options.seeds, options.comments, options.epochs = 1, 60, 1
    warnings.simplefilter("ignore")
    start, device = time.monotonic(), pick_device("auto")
    texts, verdicts, _, gold, test = read_judges(options.data)
    if options.tiny:
        texts, test = texts[: options.comments], test[: options.comments]
    both = texts + test["text"].tolist()
    ids = token_ids(options.encoder, both, length=TOKENS).numpy()
    vectors = make_text_encoder(options.encoder).fit(both).transform(both)
    trunk, truth = pretrained(options.encoder), test["label"].to_numpy()
    on_gpu = device.type == "cuda"
    frozen: dict[str, Any] = {
        "epochs": FROZEN_EPOCHS if not options.tiny else 1,
        "batch_size": BATCH * JUDGES,
        "learning_rate": RATE,
    }
    tuned: dict[str, Any] = {
        "trunk": trunk,
        "epochs": options.epochs,
        "batch_size": BATCH,
        "learning_rate": RATE,
        "training": {
            "draw": "examples",  # with all of their verdicts, so that the encoder reads a comment once per epoch
            "learning_rates": {"trunk": TRUNK_RATE},
            "optimizer": "adamw",
            "weight_decay": 0.01,
            "warmup": 0.5,
            "accumulate": options.accumulate,
            "precision": "bfloat16" if on_gpu else "float32",
        },
    }
    runs = []
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        judges = rng.permutation(verdicts.shape[1])[:JUDGES]
        seen = rng.permutation(len(texts))[: options.comments]
        V = verdicts[np.ix_(seen, judges)]
        runs += [(name, *score(p, gold[seen]), np.nan) for name, p in ask_judges(V)]
        for kind, x, settings in (("frozen", vectors, frozen), ("fine-tuned", ids, tuned)):
            for method, title in METHODS.items():
                patience = None if method == "auto" else settings["epochs"]  # keeps the best epoch
                model = PrivilegedClassifier(method, patience=patience, random_state=seed, verbose=True, **settings)
                seconds = time_training(model, x[seen], V)
                p = model.predict_proba(x[len(texts) :])[:, 1]
                runs.append((f"{title}, {kind}", *score(p, truth), seconds))
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    print(f"torch {torch.__version__}, {name}; {len(seen)} comments, {options.epochs} epochs of fine-tuning;")
    print(f"mean ± standard deviation over {options.seeds} draws of {JUDGES} judges\n")
    print_table(pd.DataFrame(runs, columns=["prediction", "test accuracy", "test NLL", "seconds"]))
    print(f"\n{time.monotonic() - start:.0f} seconds")


def ask_judges(V: Array) -> Iterator[tuple[str, Array]]:
    """Yield the majority of the judges and the best judge, as probabilities, by nothing but their verdicts."""
    yes = V.sum(1)
    yield f"majority of {JUDGES} judges, all called", (yes + 1) / (JUDGES + 2)
    agreement = []
    for judge in V.T:
        others = yes - judge
        decided = 2 * others != JUDGES - 1
        same = (judge == (2 * others > JUDGES - 1))[decided]
        agreement.append((same.sum() + 1) / (len(same) + 2))
    best = int(np.argmax(agreement))
    yield "best judge by agreement, called", np.where(V[:, best] == 1, agreement[best], 1 - agreement[best])


def time_training(model: PrivilegedClassifier, x: Array, V: Array) -> float:
    """Train on every verdict, and return the seconds."""
    row, judge = np.repeat(np.arange(len(V)), V.shape[1]), np.tile(np.arange(V.shape[1]), len(V))
    privileged = pd.DataFrame({"annotator": judge.astype(str)})
    device, start = pick_device(model.device), time.monotonic()
    model.fit(x[row], V.ravel().astype(int), privileged=privileged, example=row)
    return finish(device) - start


def print_table(runs: pd.DataFrame) -> None:
    """Print mean and standard deviation over draws as a table in Markdown."""
    digits = {"test accuracy": 1, "test NLL": 3, "seconds": 0}
    print(f"| prediction | {' | '.join(digits)} |\n|---|---|---|---|")
    for name, group in runs.groupby("prediction", sort=False):
        each = [(group[column].mean(), group[column].std(), places) for column, places in digits.items()]
        cells = [" ± ".join(f"{x:.{places}f}" for x in pair if not np.isnan(x)) for *pair, places in each]
        print(f"| {name} | {' | '.join(cell or '–' for cell in cells)} |")


if __name__ == "__main__":
    main()
