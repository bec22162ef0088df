"""Giving up the right to open files, for this process and its children, by Linux's Landlock.

See https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all architectures
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_ALL_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""By version of the kernel's interface, the latest for those after it."""
_ALL_TCP_RIGHTS = 3
_FILE_RIGHTS = _READ_FILE | 1 << 1 | 1 << 14  # to write, to truncate


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_, _layout_ = 1, "ms"  # which Python 3.14 asks for
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def read_only(paths: Iterable[Path], writable: Iterable[Path] = (), listable: Iterable[Path] = ()) -> int:
    """From now on this process can open what lies beneath these paths, to read, and nothing else.

    What is beneath ``writable`` it can also write, and of folders beneath ``listable`` it can see the names of files.
    Files that are open stay open. Returns the version of the kernel's interface, 0 where the system cannot do this.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return 0
    every = _ALL_FILE_RIGHTS[min(version, 3)]
    handled = _Ruleset(_ALL_FILE_RIGHTS[min(version, 3)], _ALL_TCP_RIGHTS if version >= 4 else 0)
    size = ctypes.sizeof(handled) if version >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), size, 0)
    if ruleset < 0:
        return 0
    try:
        for path in paths:
            _allow(libc, ruleset, path, _READ_FILE | _READ_DIR | _EXECUTE)
        for path in writable:
            _allow(libc, ruleset, path, every)
        for path in listable:
            _allow(libc, ruleset, path, _READ_DIR)
        confined = libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)
    return int(version) if confined else 0


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = rights if path.is_dir() else rights & _FILE_RIGHTS
        if not allowed:
            return
        rule = _PathBeneath(allowed, parent)
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
