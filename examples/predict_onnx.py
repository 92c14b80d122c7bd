"""Predict the rows of a CSV file with an ONNX model. Needs only onnxruntime and numpy: no torch, pandas or lupi.

lupi export model --onnx model.onnx
python predict_onnx.py model.onnx new.csv predictions.csv
"""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

TRUTH = {"true": "1", "false": "0", "": "nan"}


def make_inputs(session: Any, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the inputs of a session for rows of strings; empty strings are missing values."""
    columns = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    inputs = {}
    for name, column in columns.items():
        values = [row[name] for row in rows]
        if column["type"] == "string":
            inputs[name] = np.array([value or column["missing"] for value in values], dtype=object)
        elif "width" in column:  # a vector, such as [0.5, 1.5]
            inputs[name] = np.array([json.loads(value) for value in values], dtype=np.float64)
        else:
            inputs[name] = np.array([TRUTH.get(value.lower(), value) for value in values]).astype(np.float64)
    return inputs


def main(model: str, table: str, output: str) -> None:
    """Predict a table, and write one row per row."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    label, probabilities = session.run(["label", "probabilities"], make_inputs(session, rows))
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    with open(output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["prediction", *(f"probability_{name}" for name in classes)])
        writer.writerows([one, *p.tolist()] for one, p in zip(label, probabilities, strict=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
