"""Running code of competitions that do not come with the package in a process of its own.

Its environment holds no secrets. Where the kernel has Landlock, it opens only the competition's folder,
the folders that it is given, Python and the system's libraries, and speaks TCP with nobody.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError
from pytest_mlebench.io.paths import bundled

_VARIABLES = frozenset(
    "PATH LANG LANGUAGE TZ LD_LIBRARY_PATH PYTHONHASHSEED PYTHONPYCACHEPREFIX PYTHONDONTWRITEBYTECODE PYTHONWARNINGS "
    "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS".split()
)
_ERRORS: Mapping[str, type[MLEBenchError]] = {"CompetitionError": CompetitionError, "DataError": DataError}
_MAX_REPLY = 64 << 20
_MAX_TEXT = 20_000
_BOOT = (
    "import json, sys; job = json.loads(sys.stdin.buffer.read()); sys.path[:] = job['modules']; "
    "from pytest_mlebench.grading.confined import main; main(job)"
)


def plain_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a competition's code gets: those that are known to hold no secret."""
    return {name: value for name, value in environment.items() if name in _VARIABLES or name.startswith("LC_")}


def is_third_party(competition: Competition) -> bool:
    """Whether a competition's code comes from elsewhere than the package."""
    return not competition.folder.resolve().is_relative_to(bundled("competitions").resolve())


def call(
    function: Callable[..., Any],
    competition: Competition,
    *arguments: Any,
    read: Iterable[Path] = (),
    write: Iterable[Path] = (),
) -> Any:
    """What a function of ours returns for a competition and arguments, called in a confined process.

    Arguments and results are JSON. The competition's code can read its own folder and ``read``, and write to ``write``.
    Raises what the function raises if that is a CompetitionError or DataError, else CompetitionError.
    """
    with tempfile.TemporaryDirectory(prefix="mlebench-") as home:
        job = {
            "function": f"{function.__module__}:{function.__name__}",
            "competition": str(competition.folder.resolve()),
            "version": competition.version,
            "arguments": arguments,
            "modules": [str(Path(entry).absolute()) for entry in sys.path],
            "read": [str(path.resolve()) for path in read],
            "write": [str(path.resolve()) for path in (*write, Path(home))],
        }
        text, status = _reply(json.dumps(job).encode(), home)
    try:
        reply = json.loads(text)
        error = reply.get("error")
        if error is None:
            return reply["result"]
        raised = _ERRORS.get(str(error[0]), CompetitionError)(str(error[1])[:_MAX_TEXT])
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        raised = CompetitionError(f"{competition.id}: the process of its code ended with {ended} and no result")
    raise raised


def _reply(job: bytes, home: str) -> tuple[bytes, int]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as replies:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, str(writer), str(os.getpid())],
            stdin=subprocess.PIPE,
            env=plain_environment() | {"HOME": home, "TMPDIR": home, "JOBLIB_MULTIPROCESSING": "0"},
            cwd="/",
            pass_fds=[writer],
            start_new_session=True,  # Ctrl-C is the harness's to handle
        )
        os.close(writer)
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as orders:
                orders.write(job)
            text = replies.read(_MAX_REPLY)
            process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return text, process.returncode
