import base64
import io

import numpy as np
import pandas as pd
from PIL import Image

from lupi.diagnose.source import MOST_PICTURES, Source
from lupi.tabular import TableSpec
from lupi.tabular.schema import InputColumn

TEXT, NUMBER = InputColumn("text", "string"), InputColumn("number", "number")


def source(inputs, table="t.csv"):
    spec = TableSpec(table=table, target=["y"])
    return Source(spec=spec, inputs=inputs, rows=np.arange(3), has_ids=False, notes=[], facts={})


def test_content_is_that_of_the_rows_of_the_file(tmp_path):
    pd.DataFrame({"x": [1, 2, 3], "given": ["a b", "c d", "e f"], "y": [0, 1, 0]}).to_csv(tmp_path / "t.csv")
    found = source({"x": NUMBER, "given": TEXT}, tmp_path / "t.csv").read_content([2, 0])
    assert found["input_given"].tolist() == ["e f", "a b"]  # a name that the table of labels has is told apart
    assert found["x"].tolist() == ["3", "1"]
    assert "given" not in found


def test_tables_of_labels_without_inputs_stay_as_they_are():
    assert source({}).read_content([2, 0]).shape == (2, 0)
    assert list(source({f"x{i}": TEXT for i in range(9)}).shown) == ["x0", "x1", "x2"]


def test_three_of_many_numbers_would_tell_nothing():
    assert list(source({f"x{i}": NUMBER for i in range(3)}).shown) == ["x0", "x1", "x2"]
    assert list(source({f"x{i}": NUMBER for i in range(4)} | {"note": TEXT}).shown) == ["note"]


def test_images_come_first_and_vectors_are_not_shown():
    photo, vector = InputColumn("image", "string"), InputColumn("vector", "vector")
    inputs = {"e": vector, "x": InputColumn("category", "string"), "note": TEXT, "photo": photo, "z": NUMBER}
    assert list(source(inputs).shown) == ["photo", "note", "x"]


def test_suspicious_labels_have_small_pictures(tmp_path):
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    Image.new("RGB", (600, 300), "red").save(tmp_path / "0.jpg", exif=exif)
    noise = np.random.default_rng(0).integers(256, size=(20, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "1.png")
    (tmp_path / "2.png").write_bytes(b"damaged since")
    names = ["0.jpg", "1.png", "2.png", "../3.png"]
    pd.DataFrame({"given": names, "y": [0, 1, 0, 1]}).to_csv(tmp_path / "t.csv", index=False)
    inputs = {"given": InputColumn("image", "string")}
    table = source(inputs, tmp_path / "t.csv")
    pictures = table.draw_pictures(table.read_content([1, 0, 3, 2] * 20))
    assert list(pictures) == ["input_given"]
    shown = pictures["input_given"]
    assert len(shown) == MOST_PICTURES
    assert shown[2:4] == [None, None]
    sizes = []
    for address in shown[:2]:
        head, _, content = address.partition(",")
        assert head == "data:image/jpeg;base64"
        assert b"home" not in base64.b64decode(content)
        sizes.append(Image.open(io.BytesIO(base64.b64decode(content))).size)
    assert sizes == [(40, 20), (96, 48)]  # a small image stays as it is
    assert len("".join(address or "" for address in shown)) < 300_000
