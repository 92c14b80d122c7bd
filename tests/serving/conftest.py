import numpy as np
import pandas as pd
import pytest

from lupi.serving import train
from lupi.tabular import TableSpec

collect_ignore = ["programs"]
ROWS = 90


@pytest.fixture(scope="session")
def frame():
    rng = np.random.default_rng(0)
    words = ["good", "bad", "dull", "bright", "long", "short"]
    return pd.DataFrame(
        {
            "size": rng.normal(size=ROWS),
            "note": [" ".join(rng.choice(words, 6)) for _ in range(ROWS)],
            "worker": rng.integers(4, size=ROWS),
            "label": rng.integers(3, size=ROWS),
        }
    )


@pytest.fixture(scope="session")
def table(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    frame.to_parquet(path)
    return path


@pytest.fixture(scope="session")
def quick_train(table):
    """Return a function that trains a small model on the table."""

    def run(kind=None, method="tram", **options):
        spec = TableSpec(table=table, target=["label"], privileged=["worker"], kind=kind or {})
        return train(spec, method=method, settings={"epochs": 1, "hidden": (8,)}, **options)

    return run


@pytest.fixture(scope="session")
def model(quick_train):
    return quick_train()
