"""Serve a model folder over HTTP with FastAPI; a request that the model refuses gets the status 422 and the reason.

MODEL=model fastapi run serve_fastapi.py
curl localhost:8000/predict -H "Content-Type: application/json" -d '[{"size": 1.5, "city": "Bern"}]'
"""

import os
from typing import Annotated, Any

import pandas as pd
from fastapi import Body, Depends, FastAPI, HTTPException

import lupi
from lupi.serving import TableModel

app = FastAPI()
loaded: dict[str, TableModel] = {}


def get_model() -> TableModel:
    """Load the model folder that the environment variable `MODEL` names, once."""
    path = os.environ["MODEL"]
    if path not in loaded:
        model = lupi.load(path)
        assert isinstance(model, TableModel)
        loaded[path] = model
    return loaded[path]


@app.post("/predict")
def predict(
    rows: Annotated[list[dict[str, Any]], Body()], model: Annotated[TableModel, Depends(get_model)]
) -> list[Any]:
    """Predict rows, each a JSON object with the input columns; null is a missing value."""
    if not rows:
        raise HTTPException(422, "Expected rows, but got none.")
    for number, row in enumerate(rows):
        for name in model.schema.inputs:
            if name not in row:
                raise HTTPException(422, f"Expected row {number} to have column {name!r}, but it has none.")
    try:
        return model.predict(pd.DataFrame(rows)).to_dict("records")
    except ValueError as error:
        raise HTTPException(422, str(error)) from error
