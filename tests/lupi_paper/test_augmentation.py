"""Random changes of images: crops and mirror images."""

import pytest
import torch
import torch.nn.functional as F

from lupi_paper.augmentation import RandomCrop, RandomFlip, RandomResizedCrop

IMAGES = torch.randint(0, 256, (11, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_crop_is_the_image_moved_over_zeros(dtype):
    x, seen = IMAGES.to(dtype), set()
    padded = F.pad(x, (2, 2, 2, 2))
    torch.manual_seed(0)
    for _ in range(30):
        moved = RandomCrop(2)(x)
        assert moved.dtype == dtype
        for number, image in enumerate(moved):
            places = [
                (top, left)
                for top in range(5)
                for left in range(5)
                if torch.equal(image, padded[number, :, top : top + 8, left : left + 8])
            ]
            assert len(places) == 1
            seen.update(places)
    assert len(seen) == 25


def test_half_of_the_images_are_mirrored():
    torch.manual_seed(0)
    mirrored = 0
    for _ in range(100):
        for image, changed in zip(IMAGES, RandomFlip()(IMAGES), strict=True):
            assert torch.equal(changed, image) or torch.equal(changed, torch.flip(image, [2]))
            mirrored += not torch.equal(changed, image)
    assert 500 < mirrored < 600


def test_the_whole_image_at_its_own_size_is_unchanged():
    whole = RandomResizedCrop(8, scale=(1, 1), ratio=(1, 1))
    assert torch.equal(whole(IMAGES), IMAGES)
    torch.testing.assert_close(whole(IMAGES / 7), IMAGES / 7)


def test_a_quarter_at_half_its_size_averages_pixels(monkeypatch):
    """A 4 × 4 part that starts at whole pixels, resized to 2 × 2."""
    top, left = torch.randint(0, 5, (2, 11), generator=torch.Generator().manual_seed(1))
    drawn = torch.stack([torch.full((11,), 0.5), torch.full((11,), 0.5), left / 4, top / 4])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: drawn)
    parts = RandomResizedCrop(2, scale=(0.25, 0.25), ratio=(1, 1))(IMAGES.double().float())
    for number, part in enumerate(parts):
        square = IMAGES[number, :, top[number] : top[number] + 4, left[number] : left[number] + 4]
        torch.testing.assert_close(part, F.avg_pool2d(square.float(), 2), rtol=1e-4, atol=1e-2)


def test_parts_are_wide_and_high_as_asked():
    """Seen on a picture of its own coordinates."""
    height, width = 20, 40
    rows, columns = torch.meshgrid(torch.arange(20.0), torch.arange(40.0), indexing="ij")
    x = torch.stack([rows, columns]).expand(500, 2, height, width)
    torch.manual_seed(0)
    parts = RandomResizedCrop(16, scale=(0.2, 0.4), ratio=(0.5, 2.0))(x)
    inner = parts[..., 1:-1, 1:-1]  # the border of an image stops the picture of coordinates
    high = (inner[:, 0, -1, 0] - inner[:, 0, 0, 0]) * 16 / 13
    wide = (inner[:, 1, 0, -1] - inner[:, 1, 0, 0]) * 16 / 13
    area, ratio = high * wide / (height * width), wide / high
    assert 0.19 < float(area.min()) < 0.22
    assert 0.38 < float(area.max()) < 0.41
    assert 0.49 < float(ratio.min()) < 0.55
    assert 1.8 < float(ratio.max()) < 2.02
