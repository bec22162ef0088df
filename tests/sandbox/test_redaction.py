"""Secrets are kept out of records, even if an agent encodes them."""

from __future__ import annotations

import base64
import bz2
import gzip
import inspect
import io
import json
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from pytest_mlebench.records.outcome import Connection
from pytest_mlebench.sandbox import redaction
from pytest_mlebench.sandbox.collection import Collector, FilesWriter
from pytest_mlebench.sandbox.redaction import Redactor, bounded, connections, environment_secrets, validations
from tests.left import left

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
    """The part of an encoded text that does not depend on the surrounding text."""
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
    assert Redactor(["12345678", "0123456789"]).text("12345678 0123456789") == "*** ***"


def test_secrets_that_follow_or_overlap_each_other_are_masked_to_the_end() -> None:
    one = Redactor(["12345678", "aaaaaaaa"])
    assert one.text("1234567812345678") == "******"
    assert one.text("<aaaaaaaaa>") == "<***>"
    assert Redactor(["abcdefgh1234", "1234wxyzabcd"]).text("<1234wxyzabcd> abcdefgh1234wxyzabcd>") == "<***> ***>"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("secret", ["12345678", "????>>>>~~~~", "123456789"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_no_base64_character_determined_only_by_the_secret_remains(
    before: str, secret: str, encode: Callable[[bytes], bytes]
) -> None:
    encoded = encode(f"{before}{secret}end".encode())
    first, last = -(-len(before) * 8 // 6), (len(before) + len(secret)) * 8 // 6
    assert Redactor([secret]).bytes(encoded) == encoded[:first] + b"***" + encoded[last:]


@pytest.mark.parametrize("safe", ["", "/"])
def test_a_secret_in_a_url_is_masked_in_every_escaping_of_slashes_and_spaces(safe: str) -> None:
    secret = "key one/two three"
    assert Redactor([secret]).text(f"?k={quote(secret, safe=safe)}&") == "?k=***&"
    assert Redactor([secret]).text(f"?k={quote_plus(secret, safe=safe)}&") == "?k=***&"


@pytest.mark.parametrize("secret", ['pass"word\\12', "pässword-€", "p\nässword", "bytes-\udcff\udcfe"])
@pytest.mark.parametrize("outer", [True, False, None])
@pytest.mark.parametrize("inner", [True, False])
def test_a_secret_is_masked_in_json_and_in_json_within_json(secret: str, inner: bool, outer: bool | None) -> None:
    text = json.dumps({"key": f"<{secret}>"}, ensure_ascii=inner)
    if outer is not None:
        text = json.dumps({"arguments": text}, ensure_ascii=outer)
    masked = Redactor([secret]).bytes(text.encode("utf-8", "surrogateescape")).decode()
    found = json.loads(masked)
    assert (found if outer is None else json.loads(found["arguments"])) == {"key": "<***>"}


def test_data_seen_by_the_checker_and_the_proxy_is_masked_and_bounded() -> None:
    redactor = Redactor([SECRET])
    (short, long) = validations([(1.23456, f"bad {SECRET}"), (2, "v" * 2000)], redactor)
    assert (short.at, short.verdict) == (1.235, "bad ***")
    assert long.verdict == "v" * 999 + "…"
    made = Connection(at=1.0, host="h" * 300, port=443, allowed=False, method="M" * 30, reason=f"{SECRET}" + "r" * 600)
    (connection,) = connections([made], redactor)
    assert connection.host == "h" * 254 + "…"
    assert connection.method == "M" * 19 + "…"
    assert connection.reason == "***" + "r" * 496 + "…"
    assert (connection.at, connection.port) == (1.0, 443)


@pytest.mark.parametrize("content", [b"\x1f\x8bjunk", b"BZhjunk", b"\xfd7zXZ\0junk", b"PK\x03\x04junk", b"PK\x05\x06"])
def test_a_damaged_archive_is_kept(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(content)
    assert Redactor([SECRET]).file(path) is True
    assert Redactor([]).file(path) is True


@pytest.mark.parametrize("offset", [-1, -5, -len(SECRET.encode()), 0])
def test_a_secret_across_two_blocks_of_an_archive_is_found(offset: int, tmp_path: Path) -> None:
    path = tmp_path / "logs.gz"
    path.write_bytes(gzip.compress(b"x" * ((1 << 20) + offset) + SECRET.encode() + b"x" * 10))
    assert not Redactor([SECRET]).file(path)


def test_the_longest_form_of_a_secret_is_masked_if_only_its_first_byte_is_in_a_block(tmp_path: Path) -> None:
    path, longest = tmp_path / "log", SECRET.encode().hex().encode()
    path.write_bytes(b"x" * ((1 << 20) - 1) + longest)
    assert Redactor([SECRET]).file(path)
    assert path.read_bytes()[-len(longest) :] == b"*" * len(longest)


def test_archives_are_searched_up_to_a_limit(tmp_path: Path) -> None:
    defaults = inspect.signature(Redactor).parameters
    assert (defaults["unpacked_bytes"].default, defaults["members"].default) == (256 << 20, 10_000)
    assert redaction._BLOCK == 1 << 20
    redactor = Redactor([SECRET], unpacked_bytes=3 << 20)

    def is_kept(*members: bytes, redactor: Redactor = redactor) -> bool:
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, content in enumerate(members):
                archive.writestr(f"{number}", content)
        return redactor.file(path)

    block, secret = b"x" * (1 << 20), SECRET.encode()
    assert not is_kept(block, block, secret)
    assert not is_kept(block, block[1:], secret, secret)
    assert is_kept(block, block, block, secret)
    assert not is_kept(block, block, block[1:], secret), "because one byte is left"
    assert is_kept(block * 3 + secret)
    (tmp_path / "a.gz").write_bytes(gzip.compress(block * 3 + secret))
    assert redactor.file(tmp_path / "a.gz")
    first = Redactor([SECRET], members=2)
    assert not is_kept(b"", secret, redactor=first)
    assert is_kept(b"", b"", secret, redactor=first)


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress, gzip.compress, lambda data: _zip(data)])
def test_the_archives_of_a_run_share_one_budget(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    searched = []

    class Counting(Redactor):
        def spans(self, data: bytes | bytearray) -> list[tuple[int, int]]:
            searched.append(len(data))
            return super().spans(data)

    redactor = Counting([SECRET], total_bytes=8 << 20)
    path = tmp_path / "archive"
    for _ in range(20):
        path.write_bytes(compress(bytes(1 << 20)))
        assert redactor.file(path)
    assert sum(searched) < 10 << 20
    path.write_bytes(compress(SECRET.encode()))
    assert redactor.file(path), "nothing is left of the budget"
    assert redactor.notes[0].startswith(("13 archives not searched", "14 archives not searched"))


def test_members_and_streams_without_content_use_up_the_budget(tmp_path: Path) -> None:
    path, redactor = tmp_path / "archive", Redactor([SECRET], total_bytes=1 << 20)
    path.write_bytes(bz2.compress(b"") * 200)
    assert redactor.file(path) and not redactor.notes
    _pack(path, "stored", members=200)
    assert redactor.file(path) and redactor.notes


@pytest.mark.parametrize(
    ("content", "is_searched"),
    [(gzip.compress(b"x"), True), (gzip.compress(b"x") * 2, True), (b"BZhjunk", False), (b"PK\x03\x04junk", False)],
    ids=["gzip", "gzip twice", "no bzip2", "no zip"],
)
def test_an_archive_that_cannot_be_searched_is_noted(content: bytes, is_searched: bool, tmp_path: Path) -> None:
    path, redactor = tmp_path / "archive", Redactor([SECRET])
    path.write_bytes(content)
    assert redactor.file(path)
    assert bool(redactor.notes) is not is_searched


def _pack(path: Path, kind: str, size: int = 0, end: bytes = b"", members: int = 1) -> None:
    block = bytes(1 << 20)
    if kind == "xz":
        with lzma.open(path, "wb", preset=1) as file:
            for _ in range(size >> 20):
                file.write(block)
            file.write(end)
        return
    with zipfile.ZipFile(path, "w", getattr(zipfile, f"ZIP_{kind.upper()}")) as archive:
        for number in range(members):
            with archive.open(f"{number:0200}", "w") as member:
                for _ in range(size >> 20):
                    member.write(block)
                member.write(end)


@pytest.mark.parametrize("kind", ["deflated", "bzip2", "lzma", "xz"])
def test_a_secret_in_an_archive_is_found_however_it_is_compressed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    _pack(path, kind, 3 << 20, SECRET.encode())
    assert not Redactor([SECRET]).file(path)
    _pack(path, kind, 3 << 20)
    assert Redactor([SECRET]).file(path)


def test_streams_in_one_file_are_searched_up_to_the_number_of_members(tmp_path: Path) -> None:
    path, redactor = tmp_path / "archive", Redactor([SECRET], members=3)
    half = len(SECRET) // 2
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        first, second = compress(SECRET[:half].encode()), compress(SECRET[half:].encode())
        path.write_bytes(compress(b"") + first + second)
        assert not redactor.file(path), "it continues in the next stream"
        path.write_bytes(compress(b"") * 2 + first + second)
        assert redactor.file(path)


@pytest.mark.parametrize("kind", ["deflated", "bzip2", "lzma", "xz"])
def test_an_archive_bomb_takes_little_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    _pack(path, kind, 48 << 20)
    assert _memory_taken(path) < 16 << 20


def test_the_directory_of_an_archive_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    _pack(path, "stored", members=40_000)
    assert path.stat().st_size > 18 << 20
    assert _memory_taken(path) < 16 << 20


def _memory_taken(path: Path) -> int:
    tracemalloc.start()
    try:
        assert Redactor([SECRET]).file(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_values_that_would_match_by_chance_are_not_masked() -> None:
    assert Redactor(["5", "", "1234567"]).text("0.5 and 1234567") == "0.5 and 1234567"


def test_texts_are_bounded_and_storable() -> None:
    assert bounded("x" * 100, 10) == "x" * 9 + "…"
    assert bounded("x" * 10, 10) == "x" * 10
    assert bounded("\ud800", 10) == "\\ud800"
    assert Redactor([SECRET]).text("\ud800") == "\\ud800"
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
def test_an_archive_with_a_secret_is_left_out_and_noted(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    source = tmp_path / "logs"
    source.mkdir()
    (source / "bad").write_bytes(pack(b"x" * (3 << 20) + SECRET.encode()))
    (source / "good").write_bytes(pack(b"x" * (3 << 20)))
    with FilesWriter(tmp_path / "run") as files:
        collector = Collector(files, 1 << 30, 100, Redactor([SECRET]))
        collector.collect(source)
    assert list(left(tmp_path / "run")) == ["logs/good"]
    assert collector.left_out == ["logs/bad (an archive that holds a secret)"]


def test_large_files_are_masked_without_moving_other_content(tmp_path: Path) -> None:
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


def test_file_names_are_masked(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    source.mkdir()
    (source / f"{SECRET.replace('/', '')}.txt").write_text("x")
    (source / ("k" * 20)).mkdir()
    (source / ("k" * 20) / SECRET.encode().hex()).write_text("x")
    with FilesWriter(tmp_path / "run") as files:
        Collector(files, 1 << 30, 100, Redactor([SECRET, SECRET.replace("/", "")])).collect(source)
    assert sorted(left(tmp_path / "run")) == ["logs/***.txt", f"logs/{'k' * 20}/***"]


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("SOMETHING", "ghp0123456789abc", True),
        ("SOMETHING", "ghp0123456789ab", False),
        ("SOMETHING", "0123456789012345", False),
        ("SOMETHING", "abcdefghijklmnop", False),
        ("SOMETHING", "ghp0123456789abc and more", False),
        ("MY_TOKEN", "words without numbers", True),
        ("my_password", "words without numbers", True),
        ("PAT", "words without numbers", True),
        ("PATTERN", "words without numbers", False),
        ("SSH_PRIVATE_KEY", "words without numbers", True),
        ("PYTHON_INDEX_TOKEN", "words without numbers", True),
        ("PYTEST_XDIST_TESTRUNUID", "0123456789abcdef0123456789abcdef", False),
        ("AUTHORIZATION", "words without numbers", True),
        ("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22", False),
        ("GIT_AUTHOR_NAME", "words without numbers", False),
        ("SSH_AUTH_SOCK", "/tmp/ssh-0123456789abcdef", False),
        ("SESSION_FILE", "ghp0123456789abcdef", False),
        ("DATABASE", "postgres://me:hunter2-hunter2@db.example/x", True),
        ("DATABASE", "postgres://db.example/x:y@", False),
    ],
)
def test_environment_secrets_are_recognised_by_name_form_or_as_url_passwords(
    name: str, value: str, masked: bool
) -> None:
    assert any(secret in value for secret in environment_secrets({name: value})) == masked


def test_each_line_of_a_secret_is_also_a_secret() -> None:
    assert environment_secrets({"A_PRIVATE_KEY": "BEGIN\nfirst\nEND"}) == {"BEGIN\nfirst\nEND", "BEGIN", "first", "END"}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://me:pass-word@a.example/b", {"pass-word"}),
        ("https://me:pass@word:x@a.example,https://me:other@b.example", {"pass@word:x", "other"}),
        ("https://me:pass%40word@a.example/@b", {"pass%40word", "pass@word"}),
    ],
)
def test_the_passwords_of_urls_are_secrets(url: str, found: set[str]) -> None:
    assert environment_secrets({"URL": url}) == found
