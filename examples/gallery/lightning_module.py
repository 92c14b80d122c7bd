"""
Lightning
=========

TRAM in a `LightningModule`: `training_step` returns the loss of the method. Needs `pip install lightning`.
"""

# %%
import logging

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lupi.data import Batch
from lupi.methods import TRAM
from lupi.nn import MLP, Tower

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(0, verbose=False)


class Model(lightning.LightningModule):
    """TRAM on a table of ten inputs, five annotators and two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.method = TRAM(MLP(10), Tower(privileged=5, features=64), nn.Linear(64, 2), nn.Linear(64, 2))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch (x, a, y)."""
        return self.method(Batch.of(*batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Train with Adam."""
        return torch.optim.Adam(self.method.parameters(), lr=3e-3)


# %%
# Labels of annotators who are wrong up to half of the time.
x = torch.randn(800, 10)
truth = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
annotator = torch.randint(5, (800,))
wrong = torch.rand(800) < torch.tensor([0.0, 0.1, 0.2, 0.4, 0.5])[annotator]
data = TensorDataset(x, nn.functional.one_hot(annotator).float(), torch.where(wrong, 1 - truth, truth))

model = Model()
trainer = lightning.Trainer(
    max_epochs=10,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(data, batch_size=32, shuffle=True))

# %%
# What ships is the predictor, a plain module of x.
predictor = model.method.predictor().eval()
new = torch.randn(1000, 10)
right = predictor(new).argmax(1) == (new[:, 0] + new[:, 1] * new[:, 2] > 0)
print(f"accuracy on true labels: {right.float().mean():.3f}")
