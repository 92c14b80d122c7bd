import base64
import io

import numpy as np
import pandas as pd
from PIL import Image

from lupi.diagnose.content import MOST_PICTURES, add_content, choose_content, draw_pictures
from lupi.tabular import TableSpec
from lupi.tabular.schema import InputColumn

TEXT, NUMBER = InputColumn("text", "string"), InputColumn("number", "number")


def test_content_is_that_of_the_rows_of_the_file(tmp_path):
    pd.DataFrame({"x": [1, 2, 3], "given": ["a b", "c d", "e f"], "y": [0, 1, 0]}).to_csv(tmp_path / "t.csv")
    labels = pd.DataFrame({"row": [2, 0], "given": [0, 0], "wrong": [0.9, 0.1]})
    found = add_content(labels, TableSpec(table=tmp_path / "t.csv", target=["y"]), {"x": NUMBER, "given": TEXT})
    assert found["input_given"].tolist() == ["e f", "a b"]  # a name that the table of labels has is told apart
    assert found["x"].tolist() == ["3", "1"]
    assert found["given"].tolist() == [0, 0]


def test_tables_of_labels_without_inputs_stay_as_they_are():
    assert choose_content({}) == []
    assert choose_content({f"x{i}": NUMBER for i in range(9)}) == ["x0", "x1", "x2"]


def test_images_come_first_and_vectors_are_not_shown():
    photo, vector = InputColumn("image", "string"), InputColumn("vector", "vector", 8)
    inputs = {"e": vector, "x": NUMBER, "note": TEXT, "photo": photo, "z": NUMBER}
    assert choose_content(inputs) == ["photo", "note", "x"]


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
    spec = TableSpec(table=tmp_path / "t.csv", target=["y"])
    labels = add_content(pd.DataFrame({"row": [1, 0, 3, 2] * 20}), spec, inputs)
    pictures = draw_pictures(labels, spec, inputs)
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
