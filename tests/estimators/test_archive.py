import json

import numpy as np
import skops.io

from lupi.estimators.archive import dump_encoders
from lupi.tabular import InputEncoder

HOSTILE = '"__id__": 12345, {"file": "678.npy"'


def test_what_was_dumped_is_loaded():
    array = np.arange(5.0)
    encoder = InputEncoder().fit([[1.0, 2.0], [3.0, 5.0]])
    values = {"a": array, "same": array, HOSTILE: [HOSTILE, json.dumps({"__id__": 5})], "encoder": encoder}
    loaded = skops.io.loads(dump_encoders(values), trusted=["lupi.tabular.encoding.InputEncoder"])
    assert list(loaded) == list(values)
    for name in ("a", "same"):
        np.testing.assert_array_equal(loaded[name], array)
    assert loaded[HOSTILE] == values[HOSTILE]
    np.testing.assert_array_equal(loaded["encoder"].mean_, encoder.mean_)


def test_bytes_do_not_depend_on_addresses_in_memory():
    def make():
        return {"edges": np.linspace(0, 1, 7), "names": ["".join(["a", str(i)]) for i in range(50)], "n": [None, 2.5]}

    kept = [make() for _ in range(3)]
    assert len({dump_encoders(values) for values in kept}) == 1
    assert len({skops.io.dumps(values) for values in kept}) == 3
