"""A disk of limited size under everything that a container may write, so that the kernel keeps the limit.

Where the storage driver has no quotas, and the harness is root on the engine's machine, each run gets a file system of
its own in a sparse file. An overlay of the image's layers on it is bound over every folder of the container, whose own
layer is read-only. Nothing is copied, bursts, sparse files, deleted files that are still open, and inodes all count,
and a full disk is an error that the agent sees (``No space left on device``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from docker.types import Mount

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import owned

PREFIX = "mlebench-disk-"
_PROGRAMS = ("mkfs.ext4", "mount", "umount")
_METADATA_SHARE, _METADATA_BYTES = 0.03, 2 << 20
"""What a file system without a journal needs for itself."""
_BYTES_PER_INODE, _LEAST_INODES = 16384, 4096
_NOT_BOUND = {"dev", "proc", "sys"}
_MAX_OPTIONS = 4000
"""Bytes of a mount's options: a page, less a little."""


def layers(image: dict[str, Any]) -> list[Path]:
    """The folders of an image's layers on this machine, top first; empty where a disk cannot be limited this way."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists() or not all(map(shutil.which, _PROGRAMS)):
        return []
    driver = image.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") not in ("overlay2", "overlay") or not data.get("UpperDir"):
        return []
    folders = [_short(Path(text)) for text in (data["UpperDir"], *(data.get("LowerDir") or "").split(":")) if text]
    fits = sum(len(str(folder)) + 1 for folder in folders) < _MAX_OPTIONS - 300
    return folders if fits and all(folder.is_dir() for folder in folders) else []


def _short(layer: Path) -> Path:
    """The engine's own short name of a layer: a mount's options are limited."""
    with suppress(OSError):
        short = layer.parents[1] / "l" / (layer.parent / "link").read_text().strip()
        if short.samefile(layer):
            return short
    return layer


@contextmanager
def limited_disk(limit: int, image_layers: Sequence[Path], volumes: Sequence[str]) -> Iterator[list[Mount]]:
    """The mounts that give a container a disk of ``limit`` bytes; ``volumes`` are paths that its image declares."""
    folder = Path(tempfile.mkdtemp(prefix=owned(PREFIX), dir="/var/tmp"))
    try:
        disk, root = folder / "disk", folder / "root"
        disk.mkdir()
        root.mkdir()
        file = folder / "disk.img"
        with file.open("wb") as image:
            image.truncate(int(limit * (1 + _METADATA_SHARE)) + _METADATA_BYTES)
        inodes = max(_LEAST_INODES, limit // _BYTES_PER_INODE)
        options = ["-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", "-m", "0", "-N", str(inodes)]
        _run("mkfs.ext4", "-q", "-F", *options, str(file))
        _run("mount", "-o", "loop,nodev,nosuid,noatime", str(file), str(disk))
        (disk / "upper").mkdir()
        (disk / "work").mkdir()
        lower = ":".join(map(str, image_layers))
        overlay = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work"
        _run("mount", "-t", "overlay", "-o", f"nodev,nosuid,{overlay}", "overlay", str(root))
        shutil.copystat(image_layers[0], disk / "upper")
        for volume in volumes:
            _make_folder(root, volume)
        names = [f"/{path.name}" for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
        targets = dict.fromkeys([*(name for name in names if name[1:] not in _NOT_BOUND), *volumes])
        yield [Mount(target, f"{root}{target}", type="bind") for target in targets]
    finally:
        remove_disk(folder)


def _make_folder(root: Path, volume: str) -> None:
    """Make the folder that a Dockerfile declares as a volume; raises SandboxError for a path that could lead elsewhere.

    The engine binds it into the container, and would follow the image's links, on this machine, to anywhere.
    """
    path = root
    names = volume.removeprefix("/").split("/")
    if not volume.startswith("/") or any(name in ("", ".", "..") for name in names) or names[0] in _NOT_BOUND:
        raise SandboxError(
            f"the image's VOLUME {volume!r} is not a plain path: write it without dots and double slashes"
        )
    for name in names:
        path /= name
        if path.is_symlink():
            raise SandboxError(f"the image's VOLUME {volume!r} leads through a link: name the folder itself")
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise SandboxError(f"the image's VOLUME {volume!r} cannot be a folder: {error.strerror}") from error


def remove_disk(folder: Path) -> None:
    """Unmount and remove a disk, whatever state it is in."""
    for mounted in ("root", "disk"):
        if (folder / mounted).is_mount():
            try:
                _run("umount", str(folder / mounted))
            except SandboxError:
                with suppress(SandboxError):
                    _run("umount", "--lazy", str(folder / mounted))
    if not any((folder / mounted).is_mount() for mounted in ("root", "disk")):
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    except subprocess.CalledProcessError as error:
        raise SandboxError(f"a run's disk cannot be made: {command[0]}: {error.stderr.strip()}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"a run's disk cannot be made: {error}") from error
