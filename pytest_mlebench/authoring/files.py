"""Links raw files into the prepared data. They are copied once, after preparation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_mlebench.errors import DataError


def link(source: Path, target: Path) -> None:
    """Create ``target`` as a hard link to ``source``, or as a copy if linking is not possible.

    Creates parent folders, follows symbolic links. Raises DataError if ``source`` is not a file or ``target`` exists.

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
    """``link`` files from one folder to another: names, or a mapping of old names to new ones.

    Names can include subfolders. Raises DataError with the name of the first missing or duplicate file.
    """
    pairs = names.items() if isinstance(names, Mapping) else ((name, name) for name in names)
    target.mkdir(parents=True, exist_ok=True)
    created = {target}
    for old, new in pairs:
        path = target / new
        if path.parent not in created:
            path.parent.mkdir(parents=True, exist_ok=True)
            created.add(path.parent)
        _link(source / old, path)


def link_tree(source: Path, target: Path) -> None:
    """``link`` all files below a folder, and create its empty folders. Raises DataError if the folder is missing."""
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
    except OSError:  # a different file system, a limit on links, or another owner
        shutil.copyfile(source, target)
