"""Tables are read by column, in batches, and strings are held as codes: nothing depends on the size of batches."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from lupi import PrivilegedClassifier
from lupi._internal import sparse_rows
from lupi.serving import train
from lupi.tabular import TableEncoder, TableSpec
from lupi.tabular.formats import base, open_columns
from lupi.tabular.frames import Columns, to_column
from lupi.tabular.kinds import number
from lupi.tabular.table_data import read_data
from lupi.tabular.values import category_labels

N = 60
SPEC = {"target": ["label"], "privileged": ["worker", "seconds"], "example": "id", "weight": "weight"}
TRAINING = {"epochs": 2, "batch_size": 8}


def make_table():
    """A table in which labels of one example are far apart, and a category is first in the last rows."""
    rng = np.random.default_rng(0)
    size, city = rng.normal(size=N // 2), rng.choice(["Bern", "Rome"], N // 2)
    size[7] = np.nan
    city[-2:] = "Oslo"
    frame = pd.DataFrame(
        {
            "id": np.tile([f"i{i}" for i in range(N // 2)], 2),
            "size": np.tile(size, 2),
            "count": np.tile(rng.integers(0, 5, N // 2), 2),
            "city": np.tile(city, 2),
            "worker": rng.choice(["ann", "bob", "cid"], N),
            "seconds": rng.gamma(2, 3, N).astype(np.float32),
            "weight": rng.integers(1, 3, N),
            "label": rng.choice(["no", "yes"], N),
        }
    )
    frame.loc[[3, 40], "worker"] = None
    frame.loc[N - 1, "worker"] = "dan"
    frame.loc[[5, 50], "seconds"] = np.nan
    frame.loc[[0, 33], "label"] = None
    frame.loc[N - 1, "label"] = "perhaps"
    return frame


TABLE = make_table()


@pytest.fixture
def path(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet", row_group_size=17)
    return tmp_path / "table.parquet"


@pytest.fixture(params=[1, 7])
def tiny(monkeypatch, request):
    """Read and convert a few rows at a time."""
    monkeypatch.setattr(base, "ROWS_AT_ONCE", request.param)
    monkeypatch.setattr(sparse_rows, "ROWS_AT_ONCE", request.param)
    monkeypatch.setattr(number, "ROWS_AT_ONCE", request.param)


def fit(path, method="tram", **options):
    return train(TableSpec(table=path, **SPEC), method=method, settings=TRAINING | options)


@pytest.mark.usefixtures("tiny")
def test_batches_do_not_matter(path):
    columns, _ = open_columns(path, list(TABLE))
    pd.testing.assert_frame_equal(columns.to_frame(), pd.read_parquet(path))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_model_does_not_depend_on_batches(suffix, path, monkeypatch):
    TABLE.to_csv(path.with_suffix(".csv"), index=False)
    whole = fit(path)
    monkeypatch.setattr(base, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(sparse_rows, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(number, "ROWS_AT_ONCE", 3)
    parts = fit(path.with_suffix(f".{suffix}"))
    for name, value in whole.estimator.method_.state_dict().items():
        torch.testing.assert_close(parts.estimator.method_.state_dict()[name], value, rtol=0, atol=0)
    assert parts.record["examples"] == N // 2
    assert parts.estimator.classes_.tolist() == ["no", "perhaps", "yes"]


def test_the_estimator_of_a_frame_learns_the_same_as_from_a_table(path):
    """The table is read by column and as codes; a DataFrame is in memory and has strings."""
    frame = TABLE.dropna(subset="label")
    own = PrivilegedClassifier("tram", random_state=0, **TRAINING)
    own.fit(
        frame[["size", "count", "city"]],
        frame["label"],
        privileged=frame[["worker", "seconds"]],
        example=frame["id"],
        sample_weight=frame["weight"],
    )
    for name, value in fit(path).estimator.method_.state_dict().items():
        torch.testing.assert_close(own.method_.state_dict()[name], value, rtol=0, atol=0)


def test_an_arrow_table_is_encoded_by_column(path):
    table = pa.parquet.read_table(path, memory_map=True)
    frame = table.to_pandas()
    inputs, privileged = ["size", "count", "city"], ["worker", "seconds"]
    for names in (inputs, privileged):
        expected = TableEncoder(privileged=names is privileged).fit(frame[names])
        lazy = TableEncoder(privileged=names is privileged).fit(Columns.of(table.select(names)))
        for rows in (frame[names], Columns.of(table.select(names))):
            one, other = expected.transform(frame[names]), lazy.transform(rows)
            np.testing.assert_array_equal(
                *(np.asarray(m.todense() if hasattr(m, "todense") else m) for m in (one, other))
            )
    labelled = frame["label"].notna().to_numpy()
    parts = [(t.filter(pa.array(labelled)), t.filter(pa.array(labelled)).to_pandas()) for t in (table,)]
    (arrow, pandas), models = parts[0], []
    for X in (arrow, pandas):
        model = PrivilegedClassifier("tram", random_state=0, **TRAINING)
        A = X.select(privileged) if X is arrow else X[privileged]
        models.append(model.fit(X.select(inputs) if X is arrow else X[inputs], pandas["label"], privileged=A))
    np.testing.assert_array_equal(*(model.predict_proba(pandas[inputs]) for model in models))


def test_codes_train_like_dense_inputs(path, monkeypatch):
    dense = fit(path, "no-pi")
    monkeypatch.setattr("lupi.tabular.encoding.MAX_DENSE_VALUES", 0)
    found = []
    original = TableEncoder.encode_frame
    monkeypatch.setattr(TableEncoder, "encode_frame", lambda *a, **k: found.append(original(*a, **k)) or found[-1])
    coded = fit(path, "no-pi")
    assert isinstance(found[0], sparse_rows.CodedRows)
    for name, value in dense.estimator.method_.state_dict().items():
        torch.testing.assert_close(coded.estimator.method_.state_dict()[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": np.inf}, "column 'size' to be finite numbers, but got 'inf' in row 59"),
        ({"city": "Rome"}, "rows 29 and 59 of example 'i29' differ in 'city'"),
        ({"id": None}, "to have an id in every row, but row 59 has none"),
        ({"weight": -1}, "finite and not negative, but row 59 has -1"),
    ],
)
def test_errors_name_rows_of_the_table(change, message, path):
    TABLE.assign(**{name: [*TABLE[name][:-1], value] for name, value in change.items()}).to_parquet(path)
    with pytest.raises(ValueError, match=message):
        fit(path)


@pytest.mark.usefixtures("tiny")
def test_strings_that_are_not_utf_8_are_named(path):
    table = pa.Table.from_pandas(TABLE, preserve_index=False)
    city = [*(name.encode() for name in TABLE["city"][:-1]), b"\xff"]
    wrong = pa.chunked_array([pa.Array.from_buffers(pa.string(), N, pa.array(city).buffers())])
    place = table.column_names.index("city")
    pa.parquet.write_table(table.set_column(place, "city", wrong), path)
    with pytest.raises(ValueError, match=r"column 'city' to be UTF-8, but got b'\\xff' in row 59"):
        fit(path)


@pytest.mark.usefixtures("tiny")
def test_recognition_reads_codes_like_strings(path):
    """Identifiers are refused, and texts recognized, as in memory."""
    notes = [f"the film {i} is good" for i in range(N)]
    TABLE.assign(note=notes, comment=notes).drop(columns="id").to_parquet(path)
    spec = TableSpec(table=path, target=["label"], privileged=["worker", "comment"], ignore=["weight"])
    schema = read_data(spec).schema
    assert {name: column.kind for name, column in schema.inputs.items()} == {
        "size": "number",
        "count": "number",
        "city": "category",
        "seconds": "number",
        "note": "text",
    }
    assert schema.privileged == {"worker": "category", "comment": "text"}
    TABLE.assign(code=[f"c{i}" for i in range(N)]).drop(columns="id").to_parquet(path)
    with pytest.raises(ValueError, match="'code' has 58 distinct strings in 58 examples"):
        read_data(TableSpec(table=path, target=["label"]))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_large_integers_keep_their_digits_beside_missing_ones(kind):
    values = [2**53 + 1, None, 2**53 + 3]
    column = to_column("id", pa.chunked_array([values], kind))
    assert category_labels(column) == [str(values[0]), str(values[2])]
    assert to_column("id", pa.chunked_array([[1, None]], kind)).dtype == np.float64
