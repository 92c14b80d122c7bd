import numpy as np
import pytest
import torch
from PIL import Image

from lupi_paper.datasets import load_image_folder


def write(path, picture, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path, **options)


def test_classes_and_files_are_sorted(tmp_path):
    black = np.zeros((4, 4, 3), np.uint8)
    for name in ("n03/b.JPEG", "n03/a.jpg", "n01/z.png", "n02/c.JPEG"):
        write(tmp_path / name, black)
    (tmp_path / "n02" / "notes.txt").touch()
    (tmp_path / ".cache").mkdir()
    found = load_image_folder(str(tmp_path))
    assert list(found.path) == ["n01/z.png", "n02/c.JPEG", "n03/a.jpg", "n03/b.JPEG"]
    assert found.y.tolist() == [0, 1, 2, 2]
    assert found.classes == ("n01", "n02", "n03")
    assert len(found.pixels(8)) == 4


@pytest.mark.parametrize(("height", "width"), [(64, 128), (128, 64), (64, 64)])
def test_the_shorter_side_is_resized_and_a_square_is_cropped_around_the_centre(tmp_path, height, width):
    """Bilinear interpolation keeps linear functions of the position, apart from the border."""
    row, column = np.mgrid[:height, :width]
    picture = np.stack([row, column, (row + column) // 2], -1).astype(np.uint8)
    write(tmp_path / "n01" / "a.png", picture)
    image = load_image_folder(tmp_path).pixels(24, resized=32)[0]
    assert (image.dtype, image.shape) == (torch.uint8, (3, 24, 24))
    place = 2 * (np.arange(24) + 0.5) - 0.5  # each pixel is the mean of two by two
    rows, columns = place + height // 2 - 24, place + width // 2 - 24
    for found, expected in zip(image.numpy(), (rows[:, None], columns, (rows[:, None] + columns) / 2), strict=True):
        np.testing.assert_allclose(found, np.broadcast_to(expected, (24, 24)), atol=1.1)


def test_an_image_of_the_right_size_stays_as_it_is(tmp_path):
    picture = np.random.default_rng(0).integers(256, size=(32, 32, 3), dtype=np.uint8)
    write(tmp_path / "n01" / "a.png", picture)
    np.testing.assert_array_equal(load_image_folder(tmp_path).pixels(32, resized=32)[0], picture.transpose(2, 0, 1))
    cropped = load_image_folder(tmp_path).pixels(28)[0]  # 8/7 of 28 are 32
    np.testing.assert_array_equal(cropped, picture[2:-2, 2:-2].transpose(2, 0, 1))


def test_grey_transparent_and_cmyk_images_have_three_channels(tmp_path):
    grey = np.full((8, 8), 100, np.uint8)
    write(tmp_path / "n01" / "a.JPEG", grey)
    Image.new("RGBA", (8, 8), (10, 20, 30, 0)).save(tmp_path / "n01" / "b.png")
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "n01" / "c.JPEG", format="JPEG")
    images = load_image_folder(tmp_path).pixels(8, resized=8)
    assert [image[:, 4, 4].tolist() for image in (images[0], images[1])] == [[100, 100, 100], [10, 20, 30]]
    assert images[2].shape == (3, 8, 8)


def test_large_jpegs_are_decoded_at_a_lower_resolution(tmp_path, monkeypatch):
    write(tmp_path / "n01" / "a.JPEG", np.full((512, 640, 3), 77, np.uint8))
    seen = []
    convert = Image.Image.convert
    monkeypatch.setattr(Image.Image, "convert", lambda self, *mode: (seen.append(self.size), convert(self, *mode))[1])
    image = load_image_folder(tmp_path).pixels(56)[0]  # resized to 64
    assert seen == [(80, 64)]
    assert image.unique().tolist() == [77]


def test_an_unreadable_file_is_named(tmp_path):
    write(tmp_path / "n01" / "a.JPEG", np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8))
    content = (tmp_path / "n01" / "a.JPEG").read_bytes()
    (tmp_path / "n01" / "b.JPEG").write_bytes(content[: len(content) // 2])
    (tmp_path / "n01" / "c.JPEG").write_text("no image")
    images = load_image_folder(tmp_path).pixels(32)
    for row, name in ((1, "b"), (2, "c")):
        with pytest.raises(ValueError, match=rf"^Expected .*n01/{name}\.JPEG to be an image, but it cannot be read: "):
            images[row]
    (tmp_path / "n01" / "a.JPEG").unlink()
    with pytest.raises(FileNotFoundError, match=r"n01/a\.JPEG"):
        images[0]


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder.*nowhere, which does not exist"):
        load_image_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="a folder of images for each class"):
        load_image_folder(tmp_path)
    (tmp_path / "n01").mkdir()
    with pytest.raises(ValueError, match=r"n01 to hold images \(\.jpeg, \.jpg, \.png\)"):
        load_image_folder(tmp_path)
