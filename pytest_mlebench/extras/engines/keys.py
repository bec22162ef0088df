"""The file of ``--cluster-keys``: keys for jobs on machines that do not have the session's environment."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.files import secret_lines

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def load_keys(file: Path, environment: MutableMapping[str, str] = os.environ) -> tuple[str, ...]:
    """Add the file's ``NAME=value`` lines to the environment, and return the names.

    Raises UsageError for a file that somebody else owns or may read, and for a line of another form, unquoted.
    """
    names = []
    for number, line in secret_lines(file):
        if (match := _LINE.fullmatch(line)) is None:
            raise UsageError(f"{file}, line {number}: must be NAME=value")
        name, value = match.groups()
        environment[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
        names.append(name)
    return tuple(names)
