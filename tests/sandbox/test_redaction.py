"""Secrets are kept out of records, whatever an agent does to them first."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_mlebench.sandbox.collection import Collector
from pytest_mlebench.sandbox.redaction import Redactor, bounded

SECRET = "sk-Zürich/4f+9a=Qx7"
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "plain": lambda text: text.encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64 of more": lambda text: base64.b64encode(b"key: " + text.encode() + b" end"),
    "base64 of something else": lambda text: base64.b64encode(b"a" + text.encode() + b"xy"),
    "URL-safe base64": lambda text: base64.urlsafe_b64encode(b"12" + text.encode() + b"z"),
    "hexadecimal": lambda text: text.encode().hex().encode(),
    "upper-case hexadecimal": lambda text: text.encode().hex().upper().encode(),
    "reversed": lambda text: text.encode()[::-1],
    "reversed base64": lambda text: base64.b64encode(text.encode()[::-1]),
    "URL": lambda text: quote(text, safe="").encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 big-endian": lambda text: text.encode("utf-16-be"),
}


def _core(data: bytes) -> bytes:
    """What of an encoded text does not depend on its neighbours."""
    return data[4:-4]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_masked_in_every_usual_encoding(encoding: str) -> None:
    encoded = ENCODINGS[encoding](SECRET)
    masked = Redactor([SECRET]).bytes(b"before " + encoded + b" after")
    assert masked.startswith(b"before ") and masked.endswith(b" after") and b"***" in masked
    assert len(masked) < len(encoded)


def test_overlapping_secrets_leave_no_part_of_either() -> None:
    redactor = Redactor(["abcdefgh1234", "1234wxyzabcd"])
    assert redactor.text("<abcdefgh1234wxyzabcd>") == "<***>"
    assert redactor.text("<1234wxyzabcdefgh1234>") == "<***>"


def test_a_secret_inside_another_leaves_no_part_of_it() -> None:
    assert Redactor(["12345678", "0123456789"]).text("0123456789 12345678") == "*** ***"


def test_values_that_would_match_by_chance_are_not_looked_for() -> None:
    assert Redactor(["5", "", "1234567"]).text("0.5 and 1234567") == "0.5 and 1234567"


def test_texts_are_bounded_and_can_be_stored() -> None:
    assert bounded("x" * 100, 10) == "x" * 9 + "…"
    assert bounded("\ud800", 10) == "\\ud800"
    assert Redactor([SECRET]).text(SECRET + "y" * 100, 5) == "***y…"


def _zip(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"nothing")
        archive.writestr("b.txt", content)
    return buffer.getvalue()


def _tar_gz(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("b.txt")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, _zip, _tar_gz])
def test_an_archive_that_holds_a_secret_is_left_out_and_noted(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    source = tmp_path / "logs"
    source.mkdir()
    (source / "bad").write_bytes(pack(b"x" * (3 << 20) + SECRET.encode()))
    (source / "good").write_bytes(pack(b"x" * (3 << 20)))
    collector = Collector(1 << 30, 100, Redactor([SECRET]))
    collector.collect(source, tmp_path / "target")
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["good"]
    assert collector.left_out == ["logs/bad (an archive that holds a secret)"]


def test_large_files_are_masked_too_and_nothing_else_in_them_moves(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(70 << 20)
        for position in (0, (1 << 20) - 5, (64 << 20) + 3, (70 << 20) - len(SECRET.encode())):
            file.seek(position)
            file.write(SECRET.encode())
    assert Redactor([SECRET]).file(path)
    content = path.read_bytes()
    assert len(content) == 70 << 20
    assert SECRET.encode() not in content and content.count(b"*" * len(SECRET.encode())) == 4


def test_names_of_files_are_masked(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    source.mkdir()
    (source / f"{SECRET.replace('/', '')}.txt").write_text("x")
    (source / ("k" * 20)).mkdir()
    (source / ("k" * 20) / SECRET.encode().hex()).write_text("x")
    collector = Collector(1 << 30, 100, Redactor([SECRET, SECRET.replace("/", "")]))
    collector.collect(source, tmp_path / "target")
    assert sorted(path.name for path in (tmp_path / "target").rglob("*")) == ["***", "***.txt", "k" * 20]
