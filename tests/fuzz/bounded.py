"""Fuzzing in a limited process: an unexpected exception, a gigabyte of memory, or ten seconds is a failure."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings

EXAMPLES = int(os.environ.get("MLEBENCH_FUZZ_EXAMPLES", "150"))
"""Number of examples for each fuzz test."""
MEMORY = 1 << 30
"""Bytes that a fuzz test may allocate in addition to its process's initial memory."""
SECONDS = 10
"""Seconds of CPU time for one example."""

fuzzing = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)


class TooSlow(BaseException):
    """An example exceeded the limit on CPU time."""


@contextmanager
def limited_time() -> Iterator[None]:
    """Raise TooSlow after ten seconds of CPU time, in the body of a fuzz test."""

    def stop(*_: Any) -> None:
        raise TooSlow(f"an example took more than {SECONDS} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_limited(fuzz: Callable[[], None]) -> None:
    """Call a fuzz test in a separate process that is limited to a gigabyte. Fails with the test's failure."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            fuzz()
            status = 0
        except BaseException as error:
            notes = "\n".join(getattr(error, "__notes__", []))
            os.write(writer, f"{traceback.format_exc()[-20000:]}\n{notes[-20000:]}".encode("utf-8", "replace"))
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read().decode("utf-8", "replace")
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended == 0, found or f"the process ended with {ended}"
