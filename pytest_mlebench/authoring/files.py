"""Placing files of the raw data in prepared data: as links, which are copied once when all is prepared."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_mlebench.errors import DataError


def link(source: Path, target: Path) -> None:
    """Place ``source`` at ``target`` as a hard link, or as a copy where the file system cannot link.

    Makes the folders above; a symbolic link is followed. Raises DataError if the source is no file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "1.jpg").write_text("pixels")
    ...     link(Path(folder, "1.jpg"), Path(folder, "public/images/1.jpg"))
    ...     print(Path(folder, "public/images/1.jpg").read_text())
    pixels
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _link(source, target)


def link_files(names: Iterable[str] | Mapping[str, str], source: Path, target: Path) -> None:
    """``link`` many files from one folder to another: names, or a mapping of old names to new ones.

    Names may hold subfolders. Raises DataError that names the first missing file.
    """
    pairs = names.items() if isinstance(names, Mapping) else ((name, name) for name in names)
    target.mkdir(parents=True, exist_ok=True)
    made = {target}
    for old, new in pairs:
        path = target / new
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        _link(source / old, path)


def link_tree(source: Path, target: Path) -> None:
    """``link`` every file below a folder (empty folders are made too). Raises DataError if there is no folder."""
    if not source.is_dir():
        raise DataError(f"folder {source} is missing in the raw data")
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*")):
        if path.is_dir():
            (target / path.relative_to(source)).mkdir(parents=True, exist_ok=True)
        else:
            _link(path, target / path.relative_to(source))


def _link(source: Path, target: Path) -> None:
    if not source.is_file():
        raise DataError(f"file {source} is missing in the raw data")
    try:
        os.link(source.resolve() if source.is_symlink() else source, target)
    except FileExistsError as error:
        raise DataError(f"two files of the raw data go to {target}") from error
    except OSError:  # another file system, a limit on links, or files of another owner
        shutil.copyfile(source, target)
