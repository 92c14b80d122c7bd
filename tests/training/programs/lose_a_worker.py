"""Train on a dataset whose worker process is killed while it reads, and print the error."""

import os
import signal

import torch
from torch.utils.data import get_worker_info

from lupi.data import Annotations
from lupi.settings import Settings
from lupi.training import fit
from tests.training.helpers import make_data, make_method


class Deadly(torch.utils.data.Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, row):
        if row == 5 and get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(4)


data = make_data()
try:
    fit(make_method(), Annotations(Deadly(), data.row, data.a, data.y), Settings(epochs=2, batch_size=4, workers=2))
except RuntimeError as error:
    print(error)
