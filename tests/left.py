"""Reads and writes the archives of files that runs left."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_mlebench.records.record import FILES
from pytest_mlebench.runs.files import open_files
from pytest_mlebench.sandbox.collection import FilesWriter


def left(run_dir: Path) -> dict[str, bytes]:
    """The files of a run's archive by path, as ``code/main.py``."""
    with open_files(run_dir) as files:
        return {file.path: files.read(file.path, file.size) for file in files.below()}


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file in a folder, including those in archives of runs, by path."""
    for path in filter(Path.is_file, folder.rglob("*")):
        yield str(path), path.read_bytes()
        if path.name == FILES:
            yield from ((f"{path}, {name}", content) for name, content in left(path.parent).items())


def leave(run_dir: Path, files: Mapping[str, str | bytes]) -> None:
    """Add these files to the archive of a run."""
    contents = left(run_dir) if run_dir.is_dir() else {}
    contents.update({path: text.encode() if isinstance(text, str) else text for path, text in files.items()})
    with FilesWriter(run_dir) as writer:
        for path, content in sorted(contents.items()):
            writer.write(path.split("/"), io.BytesIO(content), len(content))


def dig(folder: Path, levels: int, name: str, mode: int = 0o700) -> None:
    """Nest folders, however long the path becomes, and put a file into the deepest one."""
    folder.mkdir(parents=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.fchmod(here, mode)
        os.close(here)
        here = inner
    with os.fdopen(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here), "w") as file:
        file.write("x")
    os.close(here)
