"""The key of a data store, from which the private randomness of version 2 follows (see ``authoring.private_random``).

It is a file in the store's folder, which no agent sees. Whoever wants the same data in another store copies it there
before preparing, or pushes and pulls what is prepared.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import DataError

KEY_FILE = "private.key"


def key_of(competition: Competition, root: Path) -> bytes | None:
    """The competition's key in the store below ``root``, which is made if there is none; None for version 1.

    The first version splits data as the reference does, with fixed seeds. Raises DataError for a file that is no key,
    and OSError.
    """
    if not competition.is_corrected:
        return None
    path = root / KEY_FILE
    if not path.exists():
        _make(path)
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise DataError(
            f"{path} is not a key of 64 hexadecimal digits. Restore it from a copy; or remove it, and a new one is "
            "made, with which version 2 of each competition is split in another way from then on"
        )
    return hashlib.blake2b(competition.id.encode(), key=bytes.fromhex(text), digest_size=32).digest()


def _make(path: Path) -> None:
    """Write a new key, complete or not at all, unless another process is faster."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as key:
            key.write(secrets.token_hex(32) + "\n")
            key.flush()
            os.fsync(key.fileno())
        try:
            path.hardlink_to(new)
        except FileExistsError:
            pass
        except OSError:  # the file system has no hard links
            if not path.exists():
                new.rename(path)
    finally:
        new.unlink(missing_ok=True)
