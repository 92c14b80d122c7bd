"""Export a loaded model to ONNX."""

from __future__ import annotations

from pathlib import Path

from lupi._internal.files import check_output, explain_os_errors
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.serving.model import TableModel


def export_onnx(
    model: PrivilegedClassifier | PrivilegedRegressor | TableModel, onnx: str | Path, *, overwrite: bool = False
) -> list[str]:
    """Write the predictor of a model as an ONNX file, without privileged information.

    Parameters
    ----------
    model : PrivilegedClassifier, PrivilegedRegressor or TableModel
        A model whose inputs are all numbers.
    onnx : str or Path
        The file.
    overwrite : bool
        Whether to replace an existing file.

    Returns
    -------
    list of str
        A description of the graph's input and output.
    """
    check_output(Path(onnx), argument="onnx", overwrite=overwrite)
    names = None
    if isinstance(model, TableModel):
        for name in model.encoders:
            raise ValueError(f"Expected all input columns to be numbers for an ONNX file, but {name!r} is text.")
        estimator, names = model.estimator, model.record["classes"]
    else:
        estimator = model
    with explain_os_errors(onnx, "onnx"):
        estimator.export_onnx(onnx)
    outputs = "real numbers, [rows]"
    if isinstance(estimator, PrivilegedClassifier):
        names = names or [str(name) for name in estimator.classes_]
        outputs = f"probabilities, [rows, {len(names)}]: {', '.join(names)}"
    columns = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)])
    return [
        f"x: unscaled float32 numbers, [rows, {len(columns)}]: {', '.join(columns)}",
        f"y: float32 {outputs}",
    ]
