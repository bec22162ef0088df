"""The folder of a run's sockets, which is bound into its container."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_mlebench.io.processes import owned
from pytest_mlebench.sandbox.leftovers import SOCKETS

_LONGEST = 40
"""A socket's path has at most 107 bytes, so a temporary folder of a longer name will not do."""


@contextmanager
def socket_folder() -> Iterator[Path]:
    """A folder that everybody may enter, so that a container's root can, but on the host only through a private one.

    Its parent's name says whose it is, for ``mlebench clean``.
    """
    base = tempfile.gettempdir() if len(tempfile.gettempdir()) < _LONGEST else "/tmp"
    outer = Path(tempfile.mkdtemp(prefix=owned(SOCKETS), dir=base))
    try:
        inner = outer / "s"
        inner.mkdir()
        inner.chmod(0o755)
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)
