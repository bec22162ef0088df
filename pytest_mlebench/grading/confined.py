"""The process in which code of competitions from elsewhere runs (see ``data.preparing``)."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.io.processes import read_only

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/dev/null", "/dev/urandom", "/dev/zero")


def main(job: dict[str, Any]) -> None:
    """Do the job and write its result, or error, as JSON to the descriptor that the command line names."""
    replies, parent = map(int, sys.argv[1:3])
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module, _, name = job["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    folder = Path(job["competition"])
    readable = [folder, *map(Path, job["read"]), *python_paths()]
    read_only(readable, writable=map(Path, job["write"]), listable=map(Path, sys.path))  # imports list these
    reply: dict[str, Any]
    try:
        reply = {"result": function(Competition.load(folder, version=job["version"]), *job["arguments"])}
    except MLEBenchError as error:
        reply = {"error": [type(error).__name__, str(error)]}
    except KeyboardInterrupt:  # its own: Ctrl-C goes to the harness alone
        reply = {"error": ["CompetitionError", f"{folder.name}: its code raised KeyboardInterrupt"]}
    with os.fdopen(replies, "wb") as file:
        file.write(json.dumps(reply).encode())
    sys.stdout.flush()
    os._exit(0)  # whatever threads the code has started


def python_paths() -> Iterator[Path]:
    """What Python and its packages are read from; of other folders on its path no files."""
    yield from map(Path, (*_SYSTEM, sys.prefix, sys.base_prefix))
    yield Path(__file__).parents[1]
    for entry in map(Path, sys.path):
        if entry.name in ("site-packages", "dist-packages") or entry.suffix == ".zip":
            yield entry
