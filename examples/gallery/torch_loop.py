"""
A training loop of your own
===========================

A method is a torch module. `Batch.of` holds a batch in which every example has one label; the module returns the loss,
and `predictor()` is all that ships.
"""

# %%
# Images with noisy labels; a is the annotator, one-hot, as a torch tensor.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
truth = torch.randint(2, (600,))
images = torch.randn(600, 1, 12, 12) + truth.reshape(-1, 1, 1, 1) * 0.3
annotator = torch.randint(5, (600,))
wrong = torch.rand(600) < torch.tensor([0.0, 0.1, 0.2, 0.4, 0.5])[annotator]
labels = torch.where(wrong, 1 - truth, truth)
a = nn.functional.one_hot(annotator).float()

# %%
# TRAM from its parts, and ten lines that train it.
from lupi.data import Batch
from lupi.methods import TRAM
from lupi.nn import Tower

pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
trunk = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), *pool, nn.Linear(16, 64), nn.ReLU())
tram = TRAM(trunk, Tower(privileged=5, features=64), nn.Linear(64, 2), nn.Linear(64, 2))
optimizer = torch.optim.Adam(tram.parameters(), lr=3e-3)
for _ in range(20):
    for x, a_of_batch, y in DataLoader(TensorDataset(images, a, labels), batch_size=32, shuffle=True):
        loss = tram(Batch.of(x, a_of_batch, y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %%
# The predictor is a plain module of x.
predictor = tram.predictor().eval()
new_truth = torch.randint(2, (1000,))
new = torch.randn(1000, 1, 12, 12) + new_truth.reshape(-1, 1, 1, 1) * 0.3
print(f"accuracy on true labels: {(predictor(new).argmax(1) == new_truth).float().mean():.3f}")

# %%
# `lupi.training.fit` is the loop of the library. It draws whole examples with several labels, stops early, resumes, and
# runs on several devices.
from lupi.data import Annotations
from lupi.settings import Settings
from lupi.training import fit

history = fit(tram, Annotations(images, torch.arange(600), a, labels), Settings(epochs=2))
print(history[-1])
