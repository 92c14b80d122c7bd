from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from lupi.tabular.sampling import sample_examples, sample_rows

from lupi.tabular import TableSpec, read_dataset

RNG = np.random.default_rng(0)
ROWS = 400
TABLE = pd.DataFrame({"id": RNG.integers(120, size=ROWS)})
TABLE["size"] = TABLE["id"] * 1.0
TABLE["who"] = RNG.choice(list("abc"), ROWS)
TABLE["count"] = np.arange(ROWS)
TABLE["gold"] = np.where(TABLE["size"] > 60, "yes", "no")
TABLE["label"] = TABLE["gold"]
TABLE.loc[::17, "label"] = None  # rows that are left out


@pytest.fixture
def data(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")
    spec = TableSpec(
        table=Path(tmp_path / "table.parquet"),
        target=["label"],
        privileged=["who", "count"],
        example="id",
        annotator="who",
        gold="gold",
        weight=None,
    )
    return read_dataset(spec)


def test_a_sample_has_whole_examples_and_the_rows_of_the_table(data):
    found = sample_examples(data, 100)
    table = TABLE.loc[found.rows]
    assert 90 < len(found.rows) <= 100
    assert (np.diff(found.rows) > 0).all()
    labelled = TABLE[TABLE["label"].notna()]
    assert set(labelled.index[labelled["id"].isin(table["id"])]) == set(found.rows)
    for values, name in ((found.privileged["count"], "count"), (found.annotators, "who"), (found.ids, "id")):
        assert list(map(str, values)) == list(map(str, table[name])), name
    assert found.gold.tolist() == table["gold"].tolist()
    assert found.train.X["size"].tolist() == table["size"].tolist()
    assert [data.classes[code] for code in found.train.y] == table["label"].tolist()
    assert found.train.example.tolist() == pd.factorize(table["id"])[0].tolist()
    assert found.notes[0] == (
        f"A random sample of {len(table)} of {len(labelled)} annotations was used, "
        f"all those of {table['id'].nunique()} examples."
    )


def test_the_seed_and_the_size_determine_a_sample(data):
    one, again, other = (sample_examples(data, 100, seed).rows.tolist() for seed in (0, 0, 1))
    assert one == again != other
    assert sample_examples(data, len(data.rows)) is data


def test_examples_are_equally_likely():
    example, counts = np.repeat(np.arange(10), 2), np.zeros(10)
    for seed in range(2000):
        counts[np.unique(example[sample_rows(example, 7, seed)])] += 1
    assert counts.sum() == 3 * 2000
    np.testing.assert_allclose(counts / 2000, 0.3, atol=4 * np.sqrt(0.3 * 0.7 / 2000))
