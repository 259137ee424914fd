"""Random crops and mirror images: their shape, their distribution, and that each image is changed by itself alone."""

import numpy as np
import pytest
import torch
from scipy import stats

from dpnotes.learners._augmentation import KINDS, apply_crop_flips, crop_flip, draw_crop_flips


def test_every_kind_equals_numpy_slicing():
    images = torch.arange(2 * 3 * 6 * 5).reshape(2, 3, 6, 5).float() + 1  # not square: catches exchanged axes
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    for mirrored in (0, 1):
        for top in range(9):
            for left in range(9):
                kind = (mirrored * 9 + top) * 9 + left
                # the second image keeps its place: kinds are not mixed up between images
                cut = apply_crop_flips(images, torch.tensor([kind, 40]))
                expected = padded[0, :, top : top + 6, left : left + 5]
                np.testing.assert_array_equal(cut[0], expected[..., ::-1] if mirrored else expected)
                np.testing.assert_array_equal(cut[1], images[1])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_shape_and_dtype_are_kept_and_the_seed_decides(dtype):
    images = torch.randint(256, (50, 3, 32, 32), generator=torch.Generator().manual_seed(1)).to(dtype)
    before = images.clone()
    one, same, other = (crop_flip(images, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert one.shape == images.shape
    assert one.dtype == dtype
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(images, before)
    assert crop_flip(images[:0], torch.Generator()).shape == (0, 3, 32, 32)


def test_law():
    """Uniform over 162 kinds at a false-alarm rate of 1e-3; mirroring 45 % of the images would be noticed."""
    n = 40_000
    kinds = draw_crop_flips(n, torch.Generator().manual_seed(2)).numpy()
    assert stats.chisquare(np.bincount(kinds, minlength=KINDS)).pvalue > 1e-3
    # read back from pictures: a single bright pixel tells place and mirroring
    images = torch.zeros(n, 1, 9, 9)
    images[:, 0, 4, 4] = 1.0
    images[:, 0, 4, 3] = 0.5  # left of the bright one, right of it in a mirror image
    changed = crop_flip(images, torch.Generator().manual_seed(2))
    place = changed.flatten(1).argmax(1).numpy()
    rows, columns = place // 9, place % 9
    assert stats.chisquare(np.bincount(rows, minlength=9)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(columns, minlength=9)).pvalue > 1e-3
    padded = np.pad(changed[:, 0].numpy(), ((0, 0), (0, 0), (1, 1)))
    fraction = np.mean(padded[np.arange(n), rows, columns + 2] == 0.5)
    # at the left border the half-bright pixel of an image that is not mirrored is cut off, at the right of one that is
    mirrored = stats.binomtest(round(fraction * n), n, 4 / 9)
    assert mirrored.pvalue > 1e-3
    assert stats.binomtest(round(fraction * n), n, 0.45 * 8 / 9).pvalue < 1e-3


def test_bad_images_are_named():
    with pytest.raises(ValueError, match=r"images must have shape \[n, channels, height, width\], got 2 axes"):
        crop_flip(torch.zeros(3, 4), torch.Generator())
