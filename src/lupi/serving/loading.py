"""Load any saved model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from lupi._internal.devices import check_device
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.estimators.folder import read_model_folder
from lupi.methods import Method
from lupi.serving.model import TableModel
from lupi.tabular import Schema, TransformerEncoder
from lupi.tabular.text import resolve_folder

ESTIMATORS: dict[str, type[PrivilegedClassifier | PrivilegedRegressor]] = {
    kind.__name__: kind for kind in (PrivilegedClassifier, PrivilegedRegressor)
}


def load(
    path: str | Path,
    *,
    trunk: nn.Module | Callable[[], nn.Module] | None = None,
    method: Callable[..., Method] | None = None,
    text_encoder: str | None = None,
    device: str = "cpu",
) -> PrivilegedClassifier | PrivilegedRegressor | TableModel:
    """Load a saved model. Nothing in its folder is executed.

    Parameters
    ----------
    path : str or Path
        The model folder.
    trunk : Module or callable, optional
        The trunk, if the model was trained with one of your own.
    method : callable, optional
        The method, if the model was trained with one of your own.
    text_encoder : str, optional
        Name or folder of the Hugging Face model that encodes text columns, if it has moved since training.
    device : str
        Device to predict on.

    Returns
    -------
    PrivilegedClassifier, PrivilegedRegressor or TableModel
        The estimator that was saved, or a `TableModel` if the model was trained on a table.

    Examples
    --------
    >>> import tempfile
    >>> import lupi
    >>> model = lupi.PrivilegedClassifier("no-pi", epochs=1).fit([[0.0], [1.0]], ["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(folder)
    ...     lupi.load(folder).classes_
    array(['no', 'yes'], dtype='<U3')
    """
    check_device(device)
    stored = read_model_folder(path)
    name = stored.facts["estimator"]
    if name not in ESTIMATORS:
        raise ValueError(f"Expected {path} to hold one of {', '.join(ESTIMATORS)}, but it holds a {name}.")
    estimator = ESTIMATORS[name]._from_stored(stored, path, trunk=trunk, method=method, device=device)
    if "table" not in stored.facts:
        return estimator
    encoders = stored.encoders["text_encoders_"]
    for encoder in encoders.values():
        if isinstance(encoder, TransformerEncoder):
            encoder.device = device
            encoder.name = resolve_folder(text_encoder) if text_encoder else encoder.name
    return TableModel(
        estimator=estimator,
        schema=Schema.from_json(stored.facts["table"]),
        encoders=encoders,
        record=stored.facts["record"],
    )
