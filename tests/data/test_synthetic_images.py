import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pytest_mlebench.authoring.archives import zip_member
from pytest_mlebench.authoring.synthetic import jpeg_like, png, write_zipped_csv


def decode(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(("shape", "mode"), [((3, 5), "L"), ((3, 5, 3), "RGB"), ((3, 5, 4), "RGBA")])
def test_a_png_image_reads_back_as_its_pixels(shape: tuple[int, ...], mode: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    image = decode(png(pixels))
    assert image.mode == mode
    assert (np.asarray(image) == pixels).all()


def test_a_png_image_can_have_16_bits() -> None:
    pixels = np.array([[0, 1, 256], [257, 65534, 65535]], dtype=np.uint16)
    assert np.asarray(decode(png(pixels))).tolist() == pixels.tolist()


def test_a_png_image_can_be_larger_than_a_block() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 400), dtype=np.uint8)
    assert (np.asarray(decode(png(pixels))) == pixels).all()


def test_pixels_can_be_palette_indices() -> None:
    palette = np.array([[255, 0, 0], [0, 255, 0], [1, 2, 3]], dtype=np.uint8)
    numbers = np.array([[2, 1], [0, 2]], dtype=np.uint8)
    image = decode(png(numbers, palette=palette))
    assert image.mode == "P"
    assert (np.asarray(image.convert("RGB")) == palette[numbers]).all()


def test_a_jpeg_like_file_starts_and_ends_like_a_jpeg_file() -> None:
    assert jpeg_like(b"abc") == b"\xff\xd8\xff\xe0abc\xff\xd9"


def test_a_zipped_table_is_a_single_member(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})
    write_zipped_csv(tmp_path / "t.csv.zip", table, "t.csv", sep=";")
    with zip_member(tmp_path / "t.csv.zip") as file:
        assert file.read() == b"a;b\nx;1\ny;2\n"
