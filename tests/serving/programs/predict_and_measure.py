"""Predict a table and print the peak of memory in kilobytes."""

import sys

from lupi.serving import load
from lupi.serving.prediction import predict_table

model, table, output = sys.argv[1:]
predict_table(load(model), table, output, overwrite=True)
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
