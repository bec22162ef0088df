"""The file of ``--cluster-keys``: keys for jobs on machines that do not have the session's environment."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import MutableMapping
from pathlib import Path

from pytest_mlebench.errors import UsageError, reason

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def load_keys(file: Path, environment: MutableMapping[str, str] = os.environ) -> tuple[str, ...]:
    """Add the file's ``NAME=value`` lines to the environment, and return the names.

    Raises UsageError for a file that somebody else owns or may read, and for a line of another form, unquoted.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise UsageError(f"{file} must be a file of yours that only you can read: chmod 600 {file}")
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {reason(error)}") from error
    names = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is None:
            raise UsageError(f"{file}, line {number}: must be NAME=value")
        name, value = match.groups()
        environment[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
        names.append(name)
    return tuple(names)
