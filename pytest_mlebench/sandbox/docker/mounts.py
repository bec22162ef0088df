"""A run's own mounts: what the kernel would have all containers share, and a disk of limited size.

==============  ======================================================================================================
public data     an overlay without an upper layer, so that files have inodes of the run's own: locks, leases and watches
                of one run do not meet those of another
first process   a copy of its program, for the same reason
terminals       a file system with a limit; without it, the kernel counts those of all containers together
user            a number from ``USERS``, as inotify instances, pending signals, timers, pipes and descriptors in flight
                are counted for each number
==============  ======================================================================================================

A container runtime with a kernel of its own (gVisor, Kata) separates terminals by itself. SECURITY.md names what the
runs of one kernel still share.

The disk is under everything that a container may write, so that the kernel keeps the limit. Where the storage driver
has no quotas, and the harness is root on the engine's machine, each run gets a file system of its own in a sparse file.
An overlay of the image's layers on it is bound over every folder of the container, whose own layer is read-only.
Nothing is copied, bursts, sparse files, deleted files that are still open, and inodes all count, and a full disk is an
error that the agent sees (``No space left on device``).
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from docker.types import DriverConfig, Mount

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.processes import owned
from pytest_mlebench.sandbox.wiring import DATA

INIT = "/opt/mlebench/init.py"
USERS = range(0x70000000, 0x7FFFFFFF)
"""Numbers that no distribution gives to users, and systemd to no container."""
_TERMINALS = 128
_OWN_KERNEL = ("runsc", "kata")


def new_user() -> int:
    """A number for a run's user: which one cannot be told beforehand."""
    return USERS[secrets.randbelow(len(USERS))]


def own_files(folder: Path, public: Path) -> None:
    """Put into a run's folder what its mounts need."""
    # The options of a mount have no room for every path: `:` and `,` separate, and there is a limit on their length.
    (folder / "data").symlink_to(public.resolve())
    (folder / "nothing").mkdir()
    shutil.copyfile(bundled("environment") / "init.py", folder / "init.py")
    for path in (folder / "init.py", folder / "nothing"):
        path.chmod(0o755)


def shared_data(public: Path) -> Mount:
    """The data as it is, for where there can be no overlay."""
    return Mount(DATA, str(public.resolve()), type="bind", read_only=True)


def own_mounts(folder: Path, runtime: str) -> Sequence[Mount]:
    """The mounts of ``own_files`` and of terminals: volumes without a name, which go with their container."""
    mounts = [_volume(DATA, "overlay", f"ro,lowerdir={folder}/data:{folder}/nothing")]
    if not any(name in runtime for name in _OWN_KERNEL):
        options = f"nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5,max={_TERMINALS}"
        mounts.append(_volume("/dev/pts", "devpts", options))
    return mounts


def _volume(target: str, kind: str, options: str) -> Mount:
    driver = DriverConfig("local", {"type": kind, "device": kind, "o": options})
    return Mount(target, None, type="volume", no_copy=True, driver_config=driver)


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
