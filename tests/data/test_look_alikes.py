"""Similar images, which must be on the same side of a split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pytest_mlebench.authoring.corrections import near_duplicates
from pytest_mlebench.errors import DataError


def photo(seed: int) -> Image.Image:
    """Coloured clouds."""
    noise = np.random.default_rng(seed).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((360, 280), Image.Resampling.BICUBIC)


def test_changed_copies_of_a_photo_look_alike_and_other_photos_do_not(tmp_path: Path) -> None:
    made = []
    for seed in range(4):
        image = photo(seed)
        versions = [image, image.resize((100, 78)), image.point(lambda value: 20 + 0.8 * value), image.convert("L")]
        for k, version in enumerate(versions):
            made.append(tmp_path / f"{seed}-{k}.jpg")
            version.save(made[-1], quality=95 - 20 * k)
    groups = near_duplicates(made).reshape(4, 4)
    assert (groups == groups[:, :1]).all() and len(set(groups[:, 0].tolist())) == 4


def test_a_file_that_is_not_an_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_text("none")
    with pytest.raises(DataError, match=r"photo\.jpg is not an image"):
        near_duplicates([tmp_path / "photo.jpg"])
