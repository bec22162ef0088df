"""Reads archives member by member, and writes archives whose bytes depend only on their content."""

from __future__ import annotations

import errno
import gzip
import io
import shutil
import tarfile
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from pytest_mlebench.errors import DataError
from pytest_mlebench.io.files import shuffled

if TYPE_CHECKING:
    from py7zr import SevenZipFile

# Deflating these files would not shrink them, and storing them is many times faster.
_COMPRESSED = {".jpg", ".jpeg", ".png", ".gif", ".mp3", ".mp4", ".zip", ".gz", ".7z", ".npz", ".parquet", ".tfrec"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_EPOCH_SECONDS = 315_532_800.0
_BLOCK = 1 << 20
_DISK_BLOCK = 1 << 12
_ENCRYPTED = 1  # bit of a member's flags


class ArchiveError(DataError):
    """An archive is damaged or unsupported, or cannot be unpacked safely."""


_READERS = {"zipfile", "tarfile", "gzip", "bz2", "lzma", "_compression", "compression", "py7zr"}
"""Modules that read archives. They raise all kinds of errors if an archive is damaged."""


@contextmanager
def archive_errors(path: Path | str, *, is_raw: bool = False) -> Iterator[None]:
    """Raise DataError if an archive or a table is missing, and ArchiveError if it is damaged or unsupported.

    Errors of the disk, and of the code in the ``with`` statement, are raised unchanged.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, FileNotFoundError) and str(error.filename) == str(path):
            what = f"archive {path} is missing in the raw data" if is_raw else f"{path} is missing"
            raise DataError(what) from error
        if not _is_of_reader(error):
            raise
        problem = "uses an unsupported compression method" if isinstance(error, NotImplementedError) else "is damaged"
        raise ArchiveError(f"archive {path} {problem}: {error}") from error


def _is_of_reader(error: Exception) -> bool:
    """Return whether a reader of archives raised the error, except for a missing member or an error of the disk."""
    if isinstance(error, KeyError) or getattr(error, "errno", None) not in (None, errno.EINVAL):  # a seek to nowhere
        return False
    (*_, (frame, _)) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _READERS


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive in a ``with`` statement. Raises DataError if it is missing, ArchiveError if it is damaged."""
    with archive_errors(path, is_raw=True), zipfile.ZipFile(path) as archive:
        yield archive


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open a member of an open zip archive as a binary file. Raises DataError if there is no such member."""
    try:
        return archive.open(name)
    except KeyError as error:
        raise DataError(f"{archive.filename} has no member {name}") from error


@contextmanager
def zip_member(path: Path, name: str | None = None) -> Iterator[IO[bytes]]:
    """Open a member of a zip archive as a binary file in a ``with`` statement; by default, the archive's only file."""
    with open_zip(path) as archive:
        if name is None:
            files = [info.filename for info in archive.infolist() if not info.is_dir()]
            if len(files) != 1:
                raise DataError(f"{path} contains {len(files)} files, not one")
            name = files[0]
        with open_member(archive, name) as file:
            yield file


def unpack_zip(
    path: Path,
    target: Path,
    rename: Callable[[str], str | None] | Mapping[str, str] | None = None,
    progress: Callable[[int], None] = lambda unpacked: None,
    mixed_in: Path | None = None,
) -> list[str]:
    """Unpack the files of a zip archive to a folder; returns their new names, relative to it, in archive order.

    ``rename`` maps a member's name to a new one. Members that it maps to None, or does not contain, are left out.
    ``progress`` is called after each file with the number of bytes unpacked so far.

    ``mixed_in`` is an empty folder on the same disk. If given, files are created there in a random order and then moved
    to ``target``: inodes, times and disk blocks reveal neither the archive's order nor the files' folders. The names
    are returned in the random order.

    No member yields more bytes than the archive's directory declares. Raises ArchiveError if a name would leave the
    folder or is a duplicate, and for encrypted or damaged members. On some file systems, names that differ only in case
    are duplicates. Raises DataError if a mapping contains a name that the archive lacks.
    """
    new_name = rename.get if isinstance(rename, Mapping) else (rename or (lambda name: name))
    names: list[str] = []
    unpacked = 0
    folders: set[Path] = set()
    with open_zip(path) as archive:
        if isinstance(rename, Mapping) and (missing := rename.keys() - set(archive.namelist())):
            raise DataError(f"{path} has no member {min(missing)}")
        for info in archive.infolist() if mixed_in is None else shuffled(archive.infolist()):
            name = None if info.is_dir() else new_name(info.filename)
            if name is None:
                continue
            if info.flag_bits & _ENCRYPTED:
                raise ArchiveError(f"archive {path} needs a password: {info.filename} is encrypted")
            destination = safe_join(target, name)
            if destination.parent not in folders:
                try:
                    destination.parent.mkdir(parents=True, exist_ok=True)
                except (FileExistsError, NotADirectoryError) as error:
                    raise ArchiveError(f"archive {path} has both a file and a folder {destination.parent}") from error
                folders.add(destination.parent)
            if destination.exists():  # no other process writes there
                what = "both a file and a folder" if destination.is_dir() else "more than one member for"
                raise ArchiveError(f"archive {path} has {what} {destination}")
            created = destination if mixed_in is None else mixed_in / str(len(names))
            with archive.open(info) as source, created.open("xb") as file:
                shutil.copyfileobj(source, file, _BLOCK)
            if created != destination:
                created.rename(destination)
            names.append(name)
            unpacked += info.file_size
            progress(unpacked)
    return names


def unpacked_size(path: Path) -> int:
    """Return the bytes that a zip archive's files need on disk, in blocks of 4 KiB, as its directory declares them."""
    with open_zip(path) as archive:
        return sum(-(-info.file_size // _DISK_BLOCK) * _DISK_BLOCK for info in archive.infolist())


def check_zip(path: Path) -> None:
    """Read a whole zip archive and verify the CRC of every member; raises ArchiveError if the archive is damaged."""
    with open_zip(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ArchiveError(f"archive {path} is damaged: member {damaged} has the wrong CRC")


@contextmanager
def open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar archive of any compression in a ``with`` statement; raises DataError if it is missing or damaged."""
    with archive_errors(path, is_raw=True), tarfile.open(path) as archive:
        yield archive


def tar_members(archive: tarfile.TarFile) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield name, size and content of each file of an open tar archive, in one pass. DataError for links, devices."""
    for info in archive:
        if not (info.isfile() or info.isdir()):
            raise DataError(f"{archive.name!r}: member {info.name} is neither a file nor a folder")
        if file := archive.extractfile(info):
            yield info.name, info.size, file


def tar_names(path: Path) -> list[str]:
    """Return the names of the files in a tar archive of any compression, in archive order, without unpacking it."""
    with open_tar(path) as archive:
        return [info.name for info in archive if info.isfile()]


@contextmanager
def _open_7z(path: Path) -> Iterator[SevenZipFile]:
    import py7zr

    with archive_errors(path, is_raw=True), py7zr.SevenZipFile(path) as archive:
        yield archive


def unpack_7z(path: Path, target: Path) -> None:
    """Unpack a 7z archive to a folder. Raises DataError if it is missing, damaged or unsafe to unpack."""
    with _open_7z(path) as archive:
        target.mkdir(parents=True, exist_ok=True)
        for name in archive.getnames():
            safe_join(target, name)
        archive.extractall(target)


def read_7z(path: Path, name: str, max_bytes: int = 1 << 30) -> IO[bytes]:
    """Read a member of a 7z archive into memory.

    Raises DataError if the archive is missing or damaged, or if the member is missing or larger than ``max_bytes``.
    """
    from py7zr.io import BytesIOFactory

    with _open_7z(path) as archive:
        sizes = {member.filename: member.uncompressed for member in archive.list()}
        if name not in sizes:
            raise DataError(f"{path} has no member {name}")
        if sizes[name] > max_bytes:
            raise DataError(f"{path}: member {name} has {sizes[name]:,} bytes; at most {max_bytes:,} can be read")
        factory = BytesIOFactory(limit=max_bytes + 1)
        archive.extract(targets=[name], factory=factory)
    return io.BytesIO(factory.products[name].read())


def safe_join(folder: Path, name: str) -> Path:
    """Return ``folder / name``. Raises ArchiveError if ``name`` is absolute or empty, or contains ``..`` or ``\\``."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or not parts.parts:
        raise ArchiveError(f"archive member {name!r} would be written outside of {folder}")
    return folder / parts


class ZipWriter:
    """Writes a zip archive, member by member, with fixed dates. Compressed formats such as JPEG are not deflated.

    >>> with ZipWriter(public / "test.zip") as archive:   # doctest: +SKIP
    ...     archive.write("1.jpg", raw / "1.jpg")
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._archive = zipfile.ZipFile(path, "x", allowZip64=True)

    def __enter__(self) -> ZipWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def write(self, name: str, content: bytes | str | Path | IO[bytes]) -> None:
        """Add a member from bytes, a string (as UTF-8), or a file, which is streamed."""
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, bytes):
            self._archive.writestr(_info(name), content)
        elif isinstance(content, Path):
            with content.open("rb") as file:
                self.write(name, file)
        else:
            with self.open(name) as member:
                shutil.copyfileobj(content, member, _BLOCK)

    def open(self, name: str) -> IO[bytes]:
        """Add a member and return it as a binary file for writing. Close it before you add the next member."""
        return self._archive.open(_info(name), "w", force_zip64=True)


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    stored = PurePosixPath(name).suffix.lower() in _COMPRESSED
    info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def write_zip(path: Path, members: Mapping[str, bytes | str | Path] | Iterable[tuple[str, bytes | str | Path]]) -> None:
    """Write a zip archive of these members, in this order, with ``ZipWriter``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_zip(Path(folder, "train.zip"), {"train/1.txt": "one"})
    ...     print(zipfile.ZipFile(Path(folder, "train.zip")).namelist())
    ['train/1.txt']
    """
    with ZipWriter(path) as archive:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            archive.write(name, content)


class TarWriter:
    """Writes a tar archive, member by member, with fixed dates and owners; compressed if ``gzipped``."""

    def __init__(self, path: Path, *, gzipped: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._files = ExitStack()
        file: IO[bytes] = self._files.enter_context(path.open("xb"))
        if gzipped:
            packed = gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0)
            file = cast("IO[bytes]", self._files.enter_context(packed))
        archive = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)
        self._archive = self._files.enter_context(archive)

    def __enter__(self) -> TarWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def write(self, name: str, content: bytes | Path | IO[bytes], size: int | None = None) -> None:
        """Add a member from bytes, or a file, which is streamed. ``size``, in bytes, is required for an open file."""
        if isinstance(content, bytes):
            self.write(name, io.BytesIO(content), len(content))
        elif isinstance(content, Path):
            with content.open("rb") as file:
                self.write(name, file, content.stat().st_size)
        elif size is None:
            raise ValueError(f"the size of {name} must be given")
        else:
            self._add(name, content, size)

    def _add(self, name: str, content: IO[bytes], size: int) -> None:
        info = tarfile.TarInfo(name)
        info.size = size
        self._archive.addfile(info, content)


class SortedTarWriter(TarWriter):
    """Writes members sorted by name, so that the archive does not reveal the order in which they were added.

    A temporary file next to the archive holds the members until the end of the ``with`` block.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._members: dict[str, tuple[int, int]] = {}
        self._spool = self._files.enter_context(tempfile.TemporaryFile(dir=path.parent))  # noqa: SIM115

    def __exit__(self, *raised: object) -> None:
        try:
            for name, (start, size) in () if any(raised) else sorted(self._members.items()):
                self._spool.seek(start)
                super()._add(name, self._spool, size)
        finally:
            self._files.close()

    def _add(self, name: str, content: IO[bytes], size: int) -> None:
        if name in self._members:
            raise ArchiveError(f"duplicate name of an archive member: {name}")
        self._members[name] = (self._spool.seek(0, io.SEEK_END), size)
        shutil.copyfileobj(content, self._spool, _BLOCK)


def write_tar_gz(path: Path, members: Mapping[str, bytes | Path] | Iterable[tuple[str, bytes | Path]]) -> None:
    """Write a gzipped tar archive of these members, in this order, with fixed dates and owners."""
    with TarWriter(path, gzipped=True) as archive:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            archive.write(name, content)


def copy_members(source: Path, target: Path, names: Iterable[str] | Mapping[str, str]) -> None:
    """Copy some members of a zip archive to a new one: names, or a mapping of old names to new ones, in that order.

    Raises DataError with the name of the first missing member.
    """
    pairs = names.items() if isinstance(names, Mapping) else ((name, name) for name in names)
    with open_zip(source) as archive, ZipWriter(target) as writer:
        for old, new in pairs:
            with open_member(archive, old) as file:
                writer.write(new, file)


def write_7z(path: Path, members: Mapping[str, bytes | str | Path]) -> None:
    """Write a 7z archive of these members, in this order: bytes, strings (as UTF-8), or files, which are streamed.

    Its bytes depend on py7zr's version, but not on the clock. It is compressed with LZMA2 at level 1, which takes a
    twentieth of the time of py7zr's default level 7, for files that are a third larger.
    """
    import py7zr
    from py7zr.helpers import ArchiveTimestamp

    path.parent.mkdir(parents=True, exist_ok=True)
    with py7zr.SevenZipFile(path, "x", filters=[{"id": py7zr.FILTER_LZMA2, "preset": 1}]) as archive:
        for name, content in members.items():
            if isinstance(content, Path):
                archive.write(content, name)
            else:
                archive.writestr(content, name)
        for entry in archive.header.files_info.files:
            times = [key for key in entry if key.endswith("time")]
            entry.update(dict.fromkeys(times, ArchiveTimestamp.from_datetime(_EPOCH_SECONDS)))
