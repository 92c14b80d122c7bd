"""Write an ImageNet-style folder of JPEG files: ``python -m benchmarks.jpeg_folder OUT --images 50000``.

Every class has a pattern of colours. An image is a random part of its class's pattern, blended with that of another
class and with noise, so that networks can learn the classes, and small ones make mistakes. All cores write.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from PIL import Image

CELLS = 8
"""Height and width of a pattern."""
SPARE = 0.25
"""Share of a pattern's height and width by which its part in an image may be shifted."""
GRAIN = 48
"""Height and width of the noise, which is enlarged, and the standard deviation of its values."""


def draw_image(patterns: NDArray[np.uint8], number: int, side: int, rng: np.random.Generator) -> Image.Image:
    """Draw an image of a class."""
    parts = []
    for which in (number, rng.integers(len(patterns))):
        left, top = rng.uniform(0, SPARE * CELLS, 2)
        box = (left, top, left + (1 - SPARE) * CELLS, top + (1 - SPARE) * CELLS)
        parts.append(Image.fromarray(patterns[which]).resize((side, side), Image.Resampling.BICUBIC, box=box))
    noise = Image.fromarray(rng.integers(256, size=(GRAIN, GRAIN, 3), dtype=np.uint8)).resize((side, side))
    return Image.blend(Image.blend(parts[0], parts[1], rng.uniform(0.1, 0.55)), noise, rng.uniform(0.2, 0.5))


def write_images(folder: Path, patterns: NDArray[np.uint8], images: range, side: int, quality: int, seed: int) -> None:
    """Write some images of a folder, whose classes take turns."""
    for image in images:
        number = image % len(patterns)
        drawn = draw_image(patterns, number, side, np.random.default_rng((seed, image)))
        drawn.save(folder / f"n{number:08d}" / f"n{number:08d}_{image}.JPEG", quality=quality)


def write_folder(out: Path, *, images: int, validation: int, classes: int, side: int, quality: int = 90) -> None:
    """Write `train` and `validation`."""
    patterns = np.random.default_rng(0).integers(256, size=(classes, CELLS, CELLS, 3), dtype=np.uint8)
    work = []
    for seed, (split, count) in enumerate((("train", images), ("validation", validation)), 1):
        for number in range(classes):
            (out / split / f"n{number:08d}").mkdir(parents=True, exist_ok=True)
        step = max(1, -(-count // (8 * cpu_count())))
        parts = [range(start, min(start + step, count)) for start in range(0, count, step)]
        work += [delayed(write_images)(out / split, patterns, part, side, quality, seed) for part in parts]
    Parallel(n_jobs=-1)(work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--validation", type=int, default=5_000)
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--side", type=int, default=256)
    options = vars(parser.parse_args())
    start = time.monotonic()
    write_folder(**options)
    size = sum(path.stat().st_size for path in (options["out"] / "train").glob("*/*")) / options["images"] / 1000
    print(f"{options['images']} images of {size:.0f} kB on average, in {time.monotonic() - start:.0f} seconds")
