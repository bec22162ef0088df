"""The grading process: a helper that forks a worker for each job, limits it, and answers for it.

The harness starts it (see ``grader.GradingProcess``) and writes requests to its standard input, one JSON object per
line; each is answered by one on its standard output. The helper itself never opens a submission: it imports what
graders need, once, and forks. The workers of the latest jobs are kept for further requests of the same jobs, so that a
competition's answers are read once; whatever becomes of a worker, the helper lives on and forks the next one.

request: ``{"job": {…}, "path": "submission.csv", "seconds": 600}``, without ``path`` to see that the job can be done;
with ``"certainty": true`` to learn how certain the submission's score is;
or ``{"cancel": true}``, which ends the request that is being worked on.

reply, of at most ``MAX_REPLY`` bytes, with one of these keys:

==============  ====================================================================
``ready``       the job can be done; ``confinement`` says what confines the worker: the
                version of Landlock that keeps a check from opening other than public
                files (0: nothing does), and what the kernel reports about the process
``score``       the unrounded score, with ``rounded`` beside it
``certainty``   null, or ``low``, ``high`` and ``firm`` (see ``resampling.Certainty``)
``valid``       true: the form is as it should be
``invalid``     the reason why the submission is invalid
``beyond``      ``memory`` or ``time``: the limit that the worker exceeded
``killed``      true: something else than these limits killed the worker, such as a
                machine that is short of memory
``defect``      what the grader raised, with a ``traceback``; or how the worker died
``error``       why the job cannot be done, with the ``kind`` of error
``cancelled``   true
==============  ====================================================================
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.data.preparing import heavy_imports, python_paths
from pytest_mlebench.errors import GraderDefect, InvalidSubmission, MLEBenchError
from pytest_mlebench.io.processes import end_with, kill_group, preload, read_only
from pytest_mlebench.io.values import loads

MAX_REPLY = 1 << 16
_MAX_REQUEST = 1 << 20
_POLL_SECONDS = 0.05
_IDLE_SECONDS = 60.0
MAX_WORKERS = 4
"""Workers that a helper keeps, each for a job of its own."""
_LARGE_WORKER = 256 << 20
"""Bytes; a larger worker is not kept while another one is at work."""
_MAX_TEXT = 4000
_GET_NO_NEW_PRIVILEGES, _GET_SECCOMP = 39, 21  # of prctl
# What graders import takes longer than most gradings: the helper imports it once for all its workers.
PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pytest_mlebench.authoring.resampling",
    "pytest_mlebench.grading.scorer",
)
Job = dict[str, Any]
Reply = dict[str, Any]
Evaluation = Callable[[Path | None, bool], Reply]


def main() -> None:
    """Answer requests until the harness closes the input, or ends."""
    control, replies = _Lines(os.dup(0)), os.dup(1)
    _import(PRELOADED)
    _silence()
    workers: dict[str, _Worker] = {}  # by their jobs, the latest last
    while True:
        line = control.next(_IDLE_SECONDS if workers else None)
        if line is None:  # their memory is given back
            _keep(workers, 0)
            continue
        request = json.loads(line)
        if "cancel" in request:  # too late
            continue
        job = request["job"]
        if job.get("third_party") and request["path"]:
            job["submissions"] = str(Path(request["path"]).parent)  # all that its worker can read beside the data
        key = json.dumps(job)
        worker = workers.pop(key, None)
        _keep(workers, MAX_WORKERS - 1)
        if worker is None or not worker.alive:
            _import(heavy_imports([Path(job["competition"]) / "grade.py"]))
            close = [descriptor for other in workers.values() for descriptor in other.descriptors]
            worker = _fork(job, close=(control.descriptor, replies, *close))
        workers[key] = worker
        reply = _attend(worker, request, control)
        if "beyond" in reply:
            worker.kill()
        os.write(replies, json.dumps(reply).encode() + b"\n")


def _keep(workers: dict[str, _Worker], most: int) -> None:
    """Of the idle workers, keep the latest and small ones."""
    for key in list(workers):
        worker = workers[key]
        if len(workers) > most or not worker.alive or _memory(worker.pid) > _LARGE_WORKER:
            worker.kill()
            del workers[key]


def _import(names: Iterable[str]) -> None:
    preload(names)
    if "sklearn.utils.multiclass" in sys.modules:  # which looks through all installed packages once
        with suppress(Exception):
            sys.modules["sklearn.utils.multiclass"].type_of_target(sys.modules["pandas"].Series([0, 1]))


class _Lines:
    """Lines that come in on a descriptor."""

    def __init__(self, descriptor: int, max_bytes: int = _MAX_REQUEST) -> None:
        self.descriptor = descriptor
        self._max_bytes = max_bytes
        self._buffer = b""

    def next(self, timeout: float | None) -> bytes | None:
        """The next line, None where none comes in time; ends the process at the end of the input."""
        while (line := self.take()) is None:
            if not _readable([self.descriptor], timeout):
                return None
            if not self.fill():
                os._exit(0)  # a worker ends with its parent
        return line

    def take(self) -> bytes | None:
        """A line that is there already."""
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            return None
        self._buffer = rest
        return line

    def fill(self) -> bool:
        """Read what is there; False at the end of the input, or of what may come without a line's end."""
        block = os.read(self.descriptor, 1 << 16)
        self._buffer += block
        return bool(block) and (b"\n" in self._buffer or len(self._buffer) <= self._max_bytes)


@dataclass
class _Worker:
    """A forked process that does one job."""

    job: Job
    pid: int
    requests: int
    replies: _Lines
    alive: bool = True

    @property
    def descriptors(self) -> tuple[int, int]:
        return self.requests, self.replies.descriptor

    def death(self) -> Reply:
        """Why the process ended without a reply."""
        for _ in range(100):  # its pipe is closed, so it is ending
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._close()
                break
            time.sleep(0.01)
        else:
            self.kill()
            return {"defect": "grading gave no reply"}
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        # Code that does not look whether it was given the memory that it asked for dies in many ways. What goes beyond
        # the limit is killed here, or refused by the kernel; a worker that was small and killed was in the way of
        # something else. One that was large, on a machine that has less than the limit, was not.
        if usage.ru_maxrss * 1024 > min(self.job["memory"], _machine_memory()) / 2:
            return {"beyond": "memory"}
        if ended_by == signal.SIGKILL:
            return {"killed": True}
        return {"defect": f"grading ended with {signal.Signals(ended_by).name if ended_by else 'no reply'}"}

    def kill(self) -> None:
        if self.alive:
            kill_group(self.pid)
            os.waitpid(self.pid, 0)
            self._close()

    def _close(self) -> None:
        self.alive = False
        for descriptor in self.descriptors:
            os.close(descriptor)


def _fork(job: Job, close: Sequence[int]) -> _Worker:
    worker_reads, requests = os.pipe()
    replies, worker_writes = os.pipe()
    helper = os.getpid()
    pid = os.fork()
    if pid:
        os.close(worker_reads)
        os.close(worker_writes)
        return _Worker(job, pid, requests, _Lines(replies, MAX_REPLY))
    try:
        for descriptor in (*close, requests, replies):
            os.close(descriptor)
        _confine(job["memory"], helper)
        _work(job, _Lines(worker_reads), worker_writes)
    finally:
        os._exit(1)


def _attend(worker: _Worker, request: Reply, control: _Lines) -> Reply:
    """Have the worker do what is requested; returns its reply, or what became of it."""
    deadline = time.monotonic() + request["seconds"]
    with suppress(BrokenPipeError):
        asked = {key: request.get(key) for key in ("path", "certainty")}
        os.write(worker.requests, json.dumps(asked).encode() + b"\n")
    while (line := worker.replies.take()) is None:
        ready = _readable([control.descriptor, worker.replies.descriptor], _POLL_SECONDS)
        if control.descriptor in ready:
            if not control.fill():
                worker.kill()
                os._exit(0)
            if control.take() is not None:
                worker.kill()
                return {"cancelled": True}
        if worker.replies.descriptor in ready and not worker.replies.fill():
            return worker.death()
        if time.monotonic() > deadline:
            worker.kill()
            return {"beyond": "time"}
        if _memory(worker.pid) > worker.job["memory"]:
            worker.kill()
            return {"beyond": "memory"}
    try:
        reply = loads(line)
    except ValueError:
        reply = None
    return reply if isinstance(reply, dict) else {"defect": "the worker's reply makes no sense"}


def _memory(pid: int) -> int:
    """Bytes that a process holds alone, 0 where that is not known: files that it maps are not counted."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _confine(memory: int, parent: int) -> None:
    """What a worker may use, and that it ends with its parent."""
    os.setsid()
    end_with(parent)
    with suppress(OSError):  # where the machine runs out of memory, this is killed before the harness
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _silence() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


# The worker


def _work(job: Job, requests: _Lines, replies: int) -> NoReturn:
    evaluate: Evaluation | None = None
    while True:
        request = json.loads(requests.next(None) or b"{}")
        path = request["path"]
        try:
            evaluate = evaluate or _evaluation(job)
            reply = evaluate(None if path is None else Path(path), bool(request["certainty"]))
        except MemoryError:
            reply = {"beyond": "memory"}
        except Exception as error:
            reply = _error(error)
        os.write(replies, _bounded(reply) + b"\n")


def _evaluation(job: Job) -> Evaluation:
    """What is done with each submission: it is graded, or without ``answers`` in the job its form is checked.

    None in place of a submission: that this can be done is the reply. The second argument asks for the certainty.
    """
    from pytest_mlebench.grading.scorer import Form, Scorer

    folder, max_bytes = Path(job["competition"]), job["max_bytes"]
    if "answers" not in job:
        landlock = read_only(_public_paths(job))
        form = Form(Competition.load(folder, version=job["version"]), Path(job["public"]), max_bytes=max_bytes)

        def check(path: Path | None, certainty: bool) -> Reply:
            assert not certainty, "what checks a form has no answers"
            if path is None:
                return {"ready": True, "confinement": _confinement(landlock)}
            form.check(path)
            return {"valid": True}

        return check
    landlock = 0  # it reads the answers
    if job.get("third_party"):
        own = [folder, Path(job["answers"]), *map(Path, filter(None, [job.get("submissions")]))]
        landlock = read_only([*own, *python_paths()], listable=map(Path, sys.path))
    competition = Competition.load(folder, version=job["version"])
    if "leaderboard" in job:
        competition = competition.as_twin(Leaderboard(**job["leaderboard"]))
    scorer = Scorer(competition, Path(job["answers"]), max_bytes=max_bytes)

    def grade(path: Path | None, certainty: bool) -> Reply:
        if path is None:
            return {"ready": True, "confinement": _confinement(landlock)}
        if certainty:
            found = scorer.certainty(path)
            return {"certainty": None if found is None else asdict(found)}
        score = scorer.score(path)
        return {"score": float(score), "rounded": float(round(score, 5))}

    return grade


def _confinement(landlock: int) -> dict[str, Any]:
    """What confines this process, as the kernel tells it; sizes in bytes, None for what has no limit."""
    libc = ctypes.CDLL(None)
    ask = getattr(libc, "prctl", lambda *_: 0)  # Landlock has closed /proc

    def limit(kind: int) -> int | None:
        soft, _ = resource.getrlimit(kind)
        return None if soft == resource.RLIM_INFINITY else soft

    return {
        "landlock": landlock,
        "no_new_privileges": ask(_GET_NO_NEW_PRIVILEGES, 0, 0, 0, 0) == 1,
        "seccomp": ask(_GET_SECCOMP, 0, 0, 0, 0) > 0,
        "memory": limit(resource.RLIMIT_DATA),
        "core": limit(resource.RLIMIT_CORE),
    }


def _public_paths(job: Job) -> Iterator[Path]:
    """All that a check of the form has to read; the data's private side lies beside the public one."""
    public = Path(job["public"])
    yield from (public, Path(job["competition"]), Path(job.get("uploads", public)), Path(__file__).parents[1])
    yield from map(Path, ("/usr", "/lib", "/lib64", "/etc", "/dev/null", "/dev/urandom"))
    for entry in (*map(Path, (sys.prefix, sys.base_prefix)), *map(Path, sys.path)):
        if not public.is_relative_to(entry):
            yield entry


def _error(error: Exception) -> Reply:
    if isinstance(error, InvalidSubmission):
        return {"invalid": str(error)}
    if isinstance(error, GraderDefect):
        return {"defect": str(error), "traceback": "".join(traceback.format_exception(error.__cause__))}
    if isinstance(error, MLEBenchError):
        return {"error": str(error), "kind": type(error).__name__}
    text = f"{type(error).__name__}: {error}"
    return {"defect": text, "traceback": "".join(traceback.format_exception(error))}


def _bounded(reply: Reply) -> bytes:
    """A reply of which no text is too long: the end of a traceback matters, the beginning of others."""
    for key, value in reply.items():
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            reply[key] = f"…{value[-_MAX_TEXT:]}" if key == "traceback" else f"{value[:_MAX_TEXT]}…"
    return json.dumps(reply).encode()


def _readable(descriptors: Sequence[int], timeout: float | None) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if timeout is None else timeout * 1000)}
