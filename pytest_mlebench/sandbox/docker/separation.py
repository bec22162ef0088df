"""What each run has of its own, although the kernel would have all containers share it.

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
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from docker.types import DriverConfig, Mount

from pytest_mlebench.io.paths import bundled
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
