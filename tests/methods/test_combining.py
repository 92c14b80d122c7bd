"""Combinations of two inputs: points between vectors, and images with a rectangle of another image."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lupi.data import Annotations
from lupi.methods.label_posterior import combine_inputs, paste_rectangles


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_vectors_are_combined_on_segments_between_annotated_ones(dtype):
    corners = torch.tensor([[0, 0], [200, 0], [0, 200], [77, 77]]).to(dtype)  # the last one has no label
    data = Annotations(corners, torch.tensor([0, 1, 2, 2]), torch.zeros(4, 0), torch.zeros(4))
    points, _ = combine_inputs(data, 50, seed=1)
    assert points.dtype == dtype
    assert points.shape == (150, 2)
    x, y = points.double().unbind(1)
    slack = 2.0 if dtype in (torch.bfloat16, torch.uint8) else 1e-3
    on_a_side = (x < slack) | (y < slack) | ((x + y - 200).abs() < slack)
    assert on_a_side.all()
    assert ((x > 20) & (y > 20)).any()
    assert torch.equal(points, combine_inputs(data, 50, seed=1)[0])
    assert not torch.equal(points, combine_inputs(data, 50, seed=2)[0])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_images_get_one_rectangle_of_another_image(height, width, seed):
    first, second = torch.zeros(20, 2, height, width), torch.ones(20, 2, height, width)
    pasted, share = paste_rectangles(first, second, torch.Generator().manual_seed(seed))
    torch.testing.assert_close(pasted.mean((1, 2, 3)), share)
    for image in pasted:
        assert torch.equal(image[0], image[1]), "all channels of a pixel come from one image"
        rows, columns = image[0].amax(1), image[0].amax(0)
        assert torch.equal(image[0], rows[:, None] * columns), "a rectangle"
        for line in (rows, columns):
            assert int(line.diff().abs().sum()) <= 2, "without gaps"


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_images_are_combined_from_annotated_ones(dtype):
    x = torch.arange(4).to(dtype).reshape(4, 1, 1, 1).expand(4, 3, 16, 24)
    data = Annotations(x, torch.tensor([0, 1, 2, 2]), torch.zeros(4, 0), torch.zeros(4))
    images, _ = combine_inputs(data, 500, seed=0)
    assert images.dtype == dtype
    assert images.shape == (1500, 3, 16, 24)
    assert set(images.unique().tolist()) == {0, 1, 2}
    assert torch.equal(images, combine_inputs(data, 500, seed=0)[0])
    assert not torch.equal(images, combine_inputs(data, 500, seed=1)[0])


def test_rectangles_cover_what_the_reference_covers():
    """The mean share agrees with Monte Carlo: sides √u of the image, centred anywhere, cut off at the edges."""
    size = 20_000
    _, share = paste_rectangles(
        torch.zeros(size, 1, 64, 64), torch.zeros(size, 1, 64, 64), torch.Generator().manual_seed(0)
    )
    side, top, left = torch.rand(3, 1_000_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    side = side.sqrt()

    def extent(centre):
        return (centre + side / 2).clamp(max=1) - (centre - side / 2).clamp(min=0)

    assert float(share.mean()) == pytest.approx(float((extent(top) * extent(left)).mean()), abs=0.01)
    assert float(share.max()) > 0.9
    assert float(share.min()) < 0.01


@pytest.mark.parametrize("shape", [(3,), (1, 8, 8)])
def test_weights_are_averaged_like_the_inputs(shape):
    value = torch.tensor([0.0, 1.0])
    x = value.reshape(2, *(1,) * len(shape)).expand(2, *shape).contiguous()
    data = Annotations(x, torch.arange(2), torch.zeros(2, 0), torch.zeros(2), weight=1 + value)
    combined, weight = combine_inputs(data, 40, seed=0)
    torch.testing.assert_close(weight, 1 + combined.flatten(1).mean(1))
    assert len(weight.unique()) > 3
