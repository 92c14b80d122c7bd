"""Train two cases of relabelled-images with two seeds on two devices, and print the runs from the first process."""

import sys
from contextlib import nullcontext
from pathlib import Path

import torch

from lupi.compare.cache import RunFolder, open_run_folder
from lupi.compare.engine import to_frame
from lupi.reproduce.cases import make_score, train_cases
from lupi.reproduce.relabelled_data import read_images
from lupi.reproduce.relabelled_images import Settings, launch_fabric, make_cases

if __name__ == "__main__":
    torch.set_num_threads(1)
    data, folder = map(Path, sys.argv[1:])
    settings = Settings(seeds=2, noise="low", width=0.1, epochs=2, batch_size=6, het_longer=1, device="cpu", devices=2)
    images = read_images(data, size=32, images=48, annotators_images=32, noise="low")
    fabric = launch_fabric(settings)
    with open_run_folder(folder, {}) if fabric.global_rank == 0 else nullcontext(RunFolder(folder, {})) as runs:
        fabric.barrier()
        cases = make_cases(images, images.given, settings)
        chosen, score = [cases["no-pi"], cases["two-step-tram"]], make_score(images.x_test, images.y_test)
        found = train_cases(chosen, range(2), runs, score, device=torch.device("cpu"), fabric=fabric)
    if fabric.global_rank == 0:
        print(to_frame(found).to_csv())
