"""Collecting untrusted files."""

from __future__ import annotations

import os
import tarfile
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_mlebench.sandbox.collection import Collector, FilesWriter, collect_archive, collect_submission
from pytest_mlebench.sandbox.redaction import Redactor
from tests.left import left


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "deep/er/b.txt").write_text("b")
    return folder


def collected(
    source: Path, size: int, number: int, redactor: Redactor | None = None
) -> tuple[dict[str, bytes], Collector]:
    """Collect a folder; return the files and the collector."""
    run_dir = Path(tempfile.mkdtemp(dir=source.parent))
    with FilesWriter(run_dir) as files:
        collector = Collector(files, size, number, redactor or Redactor())
        collector.collect(source)
    assert {path.name for path in run_dir.iterdir()} <= {"files.zip", "submission"}
    return left(run_dir), collector


def test_files_and_folders_are_copied(source: Path, tmp_path: Path) -> None:
    found, collector = collected(source, 1000, 100)
    assert found == {"logs/a.txt": b"a", "logs/deep/er/b.txt": b"b"}
    assert collector.left_out == []


def test_links_pipes_and_sockets_are_left_out_and_noted(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("answers")
    (source / "link").symlink_to(secret)
    (source / "folder-link").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    found, collector = collected(source, 1000, 100)
    assert found == {"logs/a.txt": b"a", "logs/deep/er/b.txt": b"b"}
    assert len(collector.left_out) == 3


def test_a_link_instead_of_the_folder_is_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "submission").symlink_to(source)
    found, collector = collected(tmp_path / "submission", 1000, 100)
    assert found == {} and collector.left_out == ["submission (no folder)"]


def test_size_and_number_are_limited(source: Path, tmp_path: Path) -> None:
    with (source / "large").open("wb") as file:
        file.truncate(10**9)
    found, _ = collected(source, 1000, 2)
    assert found == {"logs/a.txt": b"a", "logs/deep/er/b.txt": b"b"}
    for number in range(5):
        (source / f"{number}").touch()
    found, few = collected(source, 1000, 2)
    assert len(found) == 2 and len(few.left_out) == 6


def test_endless_folders_do_not_break_the_collection(source: Path, tmp_path: Path) -> None:
    folder = source / "deep"
    for _ in range(100):
        folder = folder / "d"
        folder.mkdir()
    found, collector = collected(source, 1000, 100)
    assert "logs/a.txt" in found and "too deep" in collector.left_out[0]


def test_secrets_are_masked_in_collected_files(source: Path, tmp_path: Path) -> None:
    (source / "config.py").write_text("key = 'hunter2-key'")
    found, _ = collected(source, 1000, 100, redactor=Redactor(["hunter2-key"]))
    assert found["logs/config.py"] == b"key = '***********'"


def _entry(name: str = "logs/b", *, type: bytes = tarfile.REGTYPE, content: bytes = b"", **pax: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = type, len(content)
    info.pax_headers = {key.replace("_", "."): value for key, value in pax.items()}
    return info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % 512)


def _long(type: bytes, megabytes: int) -> Iterator[bytes]:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = type, megabytes << 20
    yield info.tobuf(tarfile.GNU_FORMAT)
    yield from (b"n" * (1 << 20) for _ in range(megabytes))


def _sparse() -> bytes:
    header = bytearray(_entry(type=tarfile.GNUTYPE_SPARSE))
    header[482] = 1  # more of its map follows
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header)


GOOD = _entry("logs/a", content=b"a" * 5)
HOSTILE: dict[str, list[bytes]] = {
    "a negative size": [_entry(size="-5", content=b"x" * 512)],
    "a map in words": [_entry(GNU_sparse_major="1", GNU_sparse_minor="0", content=b"many\n" + bytes(507))],
    "an odd map": [_entry(GNU_sparse_map="1,x", GNU_sparse_size="5")],
    "a huge number": [_entry(GNU_sparse_map="9" * 5000 + ",1", GNU_sparse_size="5")],
    "nested headers": [next(_long(tarfile.GNUTYPE_LONGNAME, 0))] * 2000,
    "a long name": [*_long(tarfile.GNUTYPE_LONGNAME, 40)],
    "a long link": [*_long(tarfile.GNUTYPE_LONGLINK, 40)],
    "a long header": [*_long(tarfile.XHDTYPE, 40)],
    "a long global header": [*_long(tarfile.XGLTYPE, 40)],
    "a long map": [_sparse(), *[(b"00000000001\0" * 42 + b"\1").ljust(512, b"\0") * 2048] * 40],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_tar_stream_takes_little_memory_and_keeps_what_came_before(what: str, tmp_path: Path) -> None:
    with FilesWriter(tmp_path) as files:
        collector = Collector(files, 1 << 30, 100)
        tracemalloc.start()
        collect_archive(iter([GOOD, *HOSTILE[what], GOOD]), ["logs"], collector)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert left(tmp_path) == {"logs/a": b"a" * 5}
    assert len(collector.left_out) == 1 and collector.left_out[0].startswith("all after logs/a")
    assert peak < 16 << 20
    submission = Collector(FilesWriter(tmp_path / "other"), 1 << 30, 100)
    collect_submission(iter([*HOSTILE[what], GOOD]), submission)
    assert submission.left_out == ["submission/submission.csv (the archive is damaged)"]


def test_names_of_entries_are_not_kept_in_memory(tmp_path: Path) -> None:
    chunks = (_entry("x", path=f"logs/{'n' * 15_000}{number}") for number in range(4000))
    with FilesWriter(tmp_path) as files:
        tracemalloc.start()
        collect_archive(chunks, ["logs"], Collector(files, 1 << 30, 10))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16 << 20
