"""Train on a table and print the peak of memory in kilobytes."""

import sys
from pathlib import Path

from lupi.serving import train
from lupi.tabular import TableSpec

spec = TableSpec(table=Path(sys.argv[1]), target=["label"], privileged=["worker", "seconds"])
train(spec, method="tram", settings={"epochs": 1, "batch_size": 4096})
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
