import io
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from pytest_mlebench.authoring.archives import unpack_7z
from pytest_mlebench.authoring.worlds.archives import write_stored_7z
from pytest_mlebench.authoring.worlds.audio import aiff, sweep
from pytest_mlebench.authoring.worlds.video import mp4


def test_a_stored_7z_archive_unpacks_to_its_members_and_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    members: dict[str, bytes | str] = {f"folder/{k}.txt": bytes([k]) * (1 + 40 * k) for k in range(200)}
    for name in ("one.7z", "other.7z"):
        write_stored_7z(tmp_path / name, members | {"ä.txt": "text"})
    unpacked = tmp_path / "unpacked"
    unpack_7z(tmp_path / "one.7z", unpacked)
    found = {path.relative_to(unpacked).as_posix(): path.read_bytes() for path in unpacked.rglob("*.txt")}
    assert found == members | {"ä.txt": b"text"}
    assert (tmp_path / "one.7z").read_bytes() == (tmp_path / "other.7z").read_bytes()


def test_an_aiff_file_holds_its_rate_and_its_samples() -> None:
    samples = np.rint(1000 * sweep(0.5, 2000, 50, 250)).astype(np.int16)
    content = aiff(samples, 2000)
    channels, frames, bits, exponent, mantissa = struct.unpack(">hIhHQ", content[20:38])
    assert (channels, frames, bits, mantissa * 2.0 ** (exponent - 16383 - 63)) == (1, 1000, 16, 2000.0)
    assert struct.unpack(">I", content[4:8]) == (len(content) - 8,)
    np.testing.assert_array_equal(np.frombuffer(content[-2000:], ">i2"), samples)


def test_a_video_holds_every_frame_as_a_picture_at_the_place_that_its_tables_give() -> None:
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
