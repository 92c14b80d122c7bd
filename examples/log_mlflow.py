"""Log a model folder to MLflow as a `pyfunc` model, which `mlflow models serve` and Spark can load.

python log_mlflow.py model
mlflow models serve -m models:/m-... --env-manager local
"""

import sys
from typing import Any

import mlflow
import pandas as pd

import lupi


class Predictor(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A model folder as a function from a table to predictions."""

    def load_context(self, context: Any) -> None:
        """Load the folder that was logged with the model."""
        self.model: Any = lupi.load(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> Any:  # noqa: ARG002
        """Predict a table; a bad one raises a `ValueError` with the column or row."""
        return self.model.predict(model_input)


mlflow.models.set_model(Predictor())


def log(folder: str) -> str:
    """Log a model folder, and return the address of the logged model."""
    requirements = [f"lupi=={lupi.__version__}"]
    logged = mlflow.pyfunc.log_model(  # this file is the code of the model, so nothing is pickled
        name="lupi", python_model=__file__, artifacts={"model": folder}, pip_requirements=requirements
    )
    return str(logged.model_uri)


if __name__ == "__main__":
    print(log(sys.argv[1]))
