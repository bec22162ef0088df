"""Taking out what an agent left: regular files and folders only, up to a size and a number of files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from pytest_mlebench.sandbox.redaction import Redactor

_BLOCK = 1 << 20
MAX_DEPTH = 64
_MAX_NOTES = 100
_MAX_NOTE = 300


@dataclass
class Collector:
    """Copies trees that nobody can be trusted to have made; says in ``left_out`` what it did not take.

    Secrets are masked in contents and names; an archive that holds one is left out.
    """

    max_bytes: int
    max_files: int
    redactor: Redactor = field(default_factory=Redactor)
    left_out: list[str] = field(default_factory=list)
    unnamed: int = 0
    """How many more were left out than ``left_out`` names."""
    _bytes: int = 0
    _files: int = 0
    _folders: int = 0

    def collect(self, source: Path, target: Path, *, first: str = "") -> None:
        """Copy the tree below ``source`` to ``target``; what is a link, a pipe, a device or too much is left out.

        An entry named ``first`` is taken before all others.
        """
        target.mkdir(parents=True, exist_ok=True)
        try:
            root = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            self.note(f"{source.name} (no folder)")
            return
        try:
            self._folder(root, target, source.name, first)
        finally:
            os.close(root)

    def _folder(self, folder: int, target: Path, shown: str, first: str = "") -> None:
        # Through descriptors: a path could be exchanged for a link between the look and the copy.
        with os.scandir(folder) as entries:
            names = sorted((entry.name for entry in entries), key=lambda name: (name != first, name))
        for name in names:
            self._entry(folder, name, target / self.name(name), f"{shown}/{name}")

    def _entry(self, folder: int, name: str, target: Path, shown: str) -> None:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError as error:
            self.note(f"{shown} ({'link' if _is_link(folder, name) else error.strerror})")
            return
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                if shown.count("/") >= MAX_DEPTH:
                    self.note(f"{shown[:200]}… (folders too deep)")
                    return
                if not self.admit_folder(shown):
                    return
                target.mkdir(exist_ok=True)
                self._folder(descriptor, target, shown)
            elif not stat.S_ISREG(status.st_mode):
                self.note(f"{shown} (not a regular file)")
            elif self.admit(shown, status.st_size):
                with os.fdopen(os.dup(descriptor), "rb") as source, target.open("xb") as file:
                    left = status.st_size  # a file that grows meanwhile is cut
                    while left > 0 and (block := source.read(min(_BLOCK, left))):
                        file.write(block)
                        left -= len(block)
                self.mask(target, shown)
        except OSError as error:
            self.note(f"{shown} ({error.strerror})")
        finally:
            os.close(descriptor)

    @property
    def collected_bytes(self) -> int:
        return self._bytes

    def note(self, what: str) -> None:
        """Note what is left out; an agent may leave a million links."""
        if len(self.left_out) < _MAX_NOTES:
            self.left_out.append(self.redactor.text(what, _MAX_NOTE))
        else:
            self.unnamed += 1

    def admit_folder(self, shown: str) -> bool:
        """Count a folder; False, and noted, if there are more of them than there may be files."""
        if self._folders + 1 > self.max_files:
            self.note(f"{shown} (more than {self.max_files:,} folders)")
            return False
        self._folders += 1
        return True

    def admit(self, shown: str, size: int) -> bool:
        """Count a file of this size; False, and noted, if it is over the limits."""
        if self._files + 1 > self.max_files:
            self.note(f"{shown} (more than {self.max_files:,} files)")
            return False
        if self._bytes + size > self.max_bytes:
            self.note(f"{shown} ({size:,} bytes; over the limit of {self.max_bytes:,} in all)")
            return False
        self._files += 1
        self._bytes += size
        return True

    def name(self, name: str) -> str:
        """A file's name without secrets; as it is where it has none, whatever its bytes are."""
        return name if not self.redactor.spans(os.fsencode(name)) else self.redactor.text(name, 200)

    def mask(self, path: Path, shown: str) -> None:
        """Mask the secrets in a collected file."""
        if not self.redactor.file(path):
            path.unlink()
            self.note(f"{shown} (an archive that holds a secret)")


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
