"""Train in children of this process: kill them at given points, and let others resume."""

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import torch

from lupi import PrivilegedClassifier
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import build
from lupi.methods.cross_fitting import CrossFitting
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from lupi.training.loop import StageLoop

torch.set_num_threads(1)
folder = Path(sys.argv[1])
cases = json.loads(sys.argv[2])


def child(case, number, point, name):
    """Train until a kill point, or to the end; say which steps were done."""
    generator = torch.Generator().manual_seed(0)
    row = torch.cat([torch.arange(20), torch.randint(20, (20,), generator=generator)])
    x, a = torch.randn(20, 4, generator=generator), torch.randint(3, (40, 3), generator=generator).float()
    data = Annotations(x, row, a, torch.randint(3, (40,), generator=generator), a[:, 0].long())
    held_out = dataclasses.replace(data, y=torch.randint(3, (40,), generator=generator))
    parts = Parts(
        lambda: MLP(4, (8,)), features=8, privileged=3, outputs=3, likelihood=Categorical(), tower_widths=(6, 5)
    )
    resumes = name is not None and (folder / name).exists()
    torch.manual_seed(100 + number if resumes else 1)  # what matters must come from the checkpoint
    method = build(case["method"], parts, **case.get("options", {}))
    kind, count = point or (None, None)
    steps = 0
    train_step, replace, save, remember = StageLoop.train_step, Path.replace, torch.save, CrossFitting.remember

    def counted(*arguments):
        nonlocal steps
        if kind == "step" and steps == count:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        train_step(*arguments)

    def unmoved(self, target):
        nonlocal count
        count -= 1
        if count < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    def torn(state, file):
        nonlocal count
        count -= 1
        save(state, file)
        if count < 0:
            file.truncate(file.tell() // 2)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def remembered(*arguments):
        nonlocal count
        remember(*arguments)
        count -= 1
        if count < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    StageLoop.train_step = counted
    if kind == "remember":
        CrossFitting.remember = remembered
    if kind == "unmoved":
        Path.replace = unmoved
    if kind == "torn":
        torch.save = torn
    checkpoint = None if name is None else Checkpoint(folder / name, every=case["every"])
    if case.get("estimator"):
        model = PrivilegedClassifier(
            case["method"],
            method_options=case["options"],
            hidden=(8,),
            tower=(6, 5),
            random_state=5,
            training={"checkpoint": checkpoint},
            **case["settings"],
        )
        model.fit(x[row].numpy(), data.y.numpy(), privileged=a.numpy(), example=row.numpy())
        save({"weights": model.method_.state_dict(), "history": model.history_, "steps": steps}, folder / "result.pt")
        return
    settings = Settings(**case["settings"])
    validation = held_out if settings.patience else None
    history = fit(method, data, settings, validation=validation, seed=5, checkpoint=checkpoint)
    save({"weights": method.state_dict(), "history": history, "steps": steps}, folder / "result.pt")


def run(case, number, point, name):
    """Run a child; its result, or the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child(case, number, point, name)
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == 0, (case, point)
    return torch.load(folder / "result.pt", weights_only=True)


# The first step of an optimizer imports for seconds; here it does so once, and without autograd, which may not fork.
warm = torch.nn.Parameter(torch.ones(2))
warm.grad = torch.ones(2)
torch.optim.Adam([warm], fused=True).step()
report = []
for position, case in enumerate(cases):
    whole = run(case, 0, None, None)
    report.append({"method": case["method"], "epochs": len(whole["history"]), "steps": whole["steps"], "kills": []})
    for attempt, points in enumerate(case["kills"]):
        name = f"{position}-{attempt}.pt"
        for number, point in enumerate(points):
            assert run(case, number, point, name) == signal.SIGKILL, (case, point)
        partial = any(folder.glob(f".{name}.*"))
        readable = not (folder / name).exists() or "run" in torch.load(folder / name, weights_only=True)
        result = run(case, len(points), None, name)
        same = [torch.equal(value, result["weights"][key]) for key, value in whole["weights"].items()]
        report[-1]["kills"].append(
            {
                "partial": partial,
                "readable": readable,
                "weights": all(same) and len(same) == len(result["weights"]),
                "history": result["history"] == whole["history"],
                "steps": result["steps"],
            }
        )
print(json.dumps(report))
