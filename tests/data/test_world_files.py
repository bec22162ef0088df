import io
import struct

import numpy as np
from PIL import Image

from pytest_mlebench.authoring.worlds.media import aiff, mp4, sweep


def test_an_aiff_file_contains_its_rate_and_samples() -> None:
    samples = np.rint(1000 * sweep(0.5, 2000, 50, 250)).astype(np.int16)
    content = aiff(samples, 2000)
    channels, frames, bits, exponent, mantissa = struct.unpack(">hIhHQ", content[20:38])
    assert (channels, frames, bits, mantissa * 2.0 ** (exponent - 16383 - 63)) == (1, 1000, 16, 2000.0)
    assert struct.unpack(">I", content[4:8]) == (len(content) - 8,)
    np.testing.assert_array_equal(np.frombuffer(content[-2000:], ">i2"), samples)


def test_a_video_has_each_frame_as_an_image_at_the_indexed_position() -> None:
    content = mp4([np.full((24, 32), 30 * k, np.uint8) for k in range(5)], 20)
    sizes = content.index(b"stsz") + 12
    (count,) = struct.unpack_from(">I", content, sizes)
    lengths = struct.unpack_from(f">{count}I", content, sizes + 4)
    (start,) = struct.unpack_from(">I", content, content.index(b"stco") + 12)
    shades = []
    for length in lengths:
        picture = Image.open(io.BytesIO(content[start : start + length]))
        assert picture.size == (32, 24)
        shades.append(float(np.asarray(picture).mean()))
        start += length
    np.testing.assert_allclose(shades, [0, 30, 60, 90, 120], atol=2)
