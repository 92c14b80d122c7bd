"""A model of a table that is saved without privileged information holds none."""

import numpy as np
import pandas as pd
import pytest

import lupi
from lupi.serving import train
from lupi.tabular import TableSpec
from tests.privacy import find_traces

RNG = np.random.default_rng(0)
NAMES = ["Ann Smith", "Bob Jones", "Eve Adams"]
WORDS = ["good", "bad", "dull", "bright", "long", "short"]
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=80),
        "note": [" ".join(RNG.choice(WORDS, 6)) for _ in range(80)],
        "city": RNG.choice(["Bern", "Rome"], 80),
        "annotator": RNG.choice(NAMES, 80),
        "phone": RNG.choice([41791234567, 41797654321, 41790001122], 80),
        "seconds": RNG.exponential(size=80),
        "label": RNG.choice(["no", "yes"], 80),
    }
)
TRACES = NAMES, [*FRAME["seconds"], *FRAME["phone"].unique()]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "labels.parquet"
    FRAME.to_parquet(path)
    return path


def spec(table):
    return TableSpec(table=table, target=["label"], privileged=["annotator,phone,seconds"])


def options(method):
    few = {"method_options": {"methods": ["no-pi", "tram"], "folds": 2}} if method == "auto" else {}
    return {"method": method, "settings": {"epochs": 1, "hidden": (8,)} | few}


@pytest.mark.parametrize("method", ["auto", "tram"])
def test_a_model_folder_without_privileged_information_holds_none(method, table, tmp_path):
    model = train(spec(table), **options(method), output=tmp_path / "model", save_privileged=False)
    assert find_traces(tmp_path / "model", *TRACES) == set()
    loaded = lupi.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(FRAME), model.predict(FRAME))
    with pytest.raises(ValueError, match="saved without privileged information"):
        loaded.estimator.predict_proba_given(FRAME[["size"]], FRAME[["annotator", "phone", "seconds"]])
    assert "holds only the predictor" in (tmp_path / "model" / "README.md").read_text()
    loaded.save(tmp_path / "again")
    assert find_traces(tmp_path / "again", *TRACES) == set()
    assert (tmp_path / "again" / "README.md").read_text() == (tmp_path / "model" / "README.md").read_text()


def test_a_whole_model_folder_holds_names_and_values(table, tmp_path):
    train(spec(table), **options("tram"), output=tmp_path / "model")
    assert find_traces(tmp_path / "model", *TRACES) > set(NAMES)


def test_a_method_that_ships_privileged_information_is_refused_before_training(table, tmp_path):
    with pytest.raises(ValueError, match=r"`method`.*'mean-imputation' contains values"):
        train(spec(table), method="mean-imputation", output=tmp_path / "model", save_privileged=False)
    assert not any(tmp_path.iterdir())
