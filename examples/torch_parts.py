"""For torch users: compose trunk, tower and heads, and train them with the library's loop or your own.

>>> main(epochs=1)  # doctest: +ELLIPSIS
trained ... parameters, ship ...
"""

import torch
from torch import nn

from lupi.data import Annotations
from lupi.methods import TRAM
from lupi.nn import Tower
from lupi.settings import Settings
from lupi.training import fit


def main(epochs: int = 5) -> None:
    """Train a convolutional trunk on images with several annotations each."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(200, 3, 16, 16, generator=generator)
    image = torch.randint(200, (1000,), generator=generator)  # a thousand labels of two hundred images
    annotator = nn.functional.one_hot(torch.randint(20, (1000,), generator=generator), 20).float()
    label = torch.randint(10, (1000,), generator=generator)

    trunk = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 64))
    tram = TRAM(trunk, Tower(privileged=20, features=64), nn.Linear(64, 10), nn.Linear(64, 10))
    fit(tram, Annotations(images, image, annotator, label), Settings(epochs=epochs))

    predictor = tram.predictor()  # a plain module of x
    assert predictor(images[:5]).shape == (5, 10)
    sizes = [sum(parameter.numel() for parameter in module.parameters()) for module in (tram, predictor)]
    print(f"trained {sizes[0]} parameters, ship {sizes[1]}")


if __name__ == "__main__":
    main()
