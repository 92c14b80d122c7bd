import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lupi import PrivilegedClassifier
from lupi.serving import tables as serving
from lupi.serving.tables import Request

N = 90
RNG = np.random.default_rng(0)
WORDS = np.array(["good", "bad", "dull", "bright", "long", "short"])
TABLE = pd.DataFrame(
    {
        "size": RNG.normal(size=N),
        "note": [" ".join(RNG.choice(WORDS, 6)) for _ in range(N)],
        "worker": RNG.integers(4, size=N),
        "label": RNG.integers(3, size=N),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    TABLE.to_parquet(folder / "table.parquet")
    return folder


def trained(folder, **options):
    lines = []
    request = Request(
        folder / "table.parquet", ["label"], ["worker"], settings={"epochs": 1, "hidden": (8,)}, **options
    )
    model, facts = serving.train(request, lines.append, progress=False)
    return model, facts | {"command": "lupi", "versions": {"lupi": "0"}}, lines


@pytest.fixture(scope="module")
def model(folder):
    return trained(folder)


def test_choices_are_said(model):
    _, _, lines = model
    assert lines[:3] == [
        "Task: classification (the target is 3 whole numbers).",
        "Inputs: 1 number, 1 text (note).",
        "Privileged: worker (category).",
    ]
    assert len(lines) == 4


def test_text_becomes_numbers_that_the_trunk_sees(model):
    estimator = model[0].estimator
    assert estimator.feature_names_in_.tolist() == ["size", *(f"note[{i}]" for i in range(len(WORDS)))]
    assert estimator.input_encoder_.numeric_


def test_a_model_comes_back(model, tmp_path):
    trained_model, facts, _ = model
    serving.save(trained_model, facts, tmp_path / "model")
    loaded = serving.load(tmp_path / "model")
    assert loaded.schema == trained_model.schema
    new = TABLE[["note", "size"]].assign(other=1)
    pd.testing.assert_frame_equal(loaded.predict(new), trained_model.predict(new))
    assert list(loaded.predict(new)) == ["prediction", "probability_0", "probability_1", "probability_2"]
    assert isinstance(PrivilegedClassifier.load(tmp_path / "model"), PrivilegedClassifier)
    assert json.loads((tmp_path / "model" / "results.json").read_text())["rows"] == N


def test_kinds_reach_the_encoders(folder):
    model, _, _ = trained(folder, kind=["worker=number", "note=category"])
    assert model.estimator.privileged_encoder_.kinds_ == {"worker": "quantile"}
    assert model.estimator.input_encoder_.encoder_.kinds_ == {"size": "standardize", "note": "category"}
    assert trained(folder)[0].estimator.privileged_encoder_.kinds_ == {"worker": "category"}


def test_predictions_do_not_depend_on_the_parts(model, folder, tmp_path, monkeypatch):
    serving.predict(model[0], folder / "table.parquet", tmp_path / "one.parquet", progress=False)
    monkeypatch.setattr("lupi.tabular.tables.ROWS_AT_ONCE", 7)
    assert serving.predict(model[0], folder / "table.parquet", tmp_path / "two.parquet", progress=False) == N
    one, two = (pd.read_parquet(tmp_path / name) for name in ("one.parquet", "two.parquet"))
    pd.testing.assert_frame_equal(one, two, atol=1e-6)
    assert pq.ParquetFile(tmp_path / "two.parquet").metadata.num_row_groups == 13


def test_the_table_itself_may_be_replaced(model, tmp_path):
    TABLE.to_parquet(tmp_path / "t.parquet")
    serving.predict(model[0], tmp_path / "t.parquet", tmp_path / "t.parquet", ["size"], progress=False)
    assert list(pd.read_parquet(tmp_path / "t.parquet"))[:2] == ["size", "prediction"]


def test_an_interrupt_leaves_nothing(model, folder, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(serving.TableModel, "predict", interrupt)
    with pytest.raises(KeyboardInterrupt):
        serving.predict(model[0], folder / "table.parquet", tmp_path / "p.csv", progress=False)
    assert not any(tmp_path.iterdir())


def test_a_text_encoder_is_found_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "bert").mkdir()
    monkeypatch.chdir(tmp_path)
    assert serving.resolved("bert") == str(tmp_path / "bert")
    assert serving.resolved("some/model") == "some/model"
    assert serving.resolved(None) is None


MEASURE = """
import sys
from lupi.serving import tables as serving
model = serving.load(sys.argv[1])
serving.predict(model, sys.argv[2], sys.argv[3], progress=False)
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_does_not_grow_with_the_table(tmp_path):
    """Of a table of 128 MB in one row group, what is in memory is a part."""

    def write(rows, **more):
        columns = {f"x{i}": RNG.normal(size=rows) for i in range(16)} | more
        pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=rows)

    write(N, label=TABLE["label"])
    request = Request(tmp_path / "t.parquet", ["label"], method="no-pi", settings={"epochs": 1, "hidden": (8,)})
    model, facts = serving.train(request, lambda _: None, progress=False)
    serving.save(model, facts | {"command": "lupi", "versions": {"lupi": "0"}}, tmp_path / "model")
    peak = {}
    for rows in (200_000, 1_000_000):
        write(rows)
        arguments = [tmp_path / "model", tmp_path / "t.parquet", tmp_path / "p.parquet"]
        output = subprocess.run([sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True, check=True)
        peak[rows] = int(output.stdout) * 1024
    assert peak[1_000_000] - peak[200_000] < 50e6, peak
    assert peak[1_000_000] < 1e9
