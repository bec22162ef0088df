"""The grading process: a helper that forks a worker for each job, enforces its limits and passes on its replies.

The harness starts the helper (see ``grader.GradingProcess``) and sends it requests through a socket: JSON objects, one
in each message. The helper sends one reply to each. It never reads a submission itself: it imports the modules that
graders need, once, and forks. A worker that cannot open the submission gets it open from the helper, and can read no
other file next to it. The helper keeps the workers of the latest jobs for further requests, so that a competition's
answers are read once. If a worker dies, the helper survives and forks the next one.

request: ``{"job": {…}, "path": "submission.csv", "seconds": 600}``; a null ``path`` checks that the job can be done;
``"certainty": true`` requests the certainty of the score instead of the score;
or ``{"cancel": true}``, which cancels the current request.

reply, of at most ``MAX_REPLY`` bytes, with one of these keys:

==============  ====================================================================
``ready``       the job can be done; ``confinement`` has the worker's restrictions: the
                version of Landlock that limits it to the files of its job
                (0: none), and what the kernel reports about the process
``score``       the unrounded score; the reply also has ``rounded``
``certainty``   null, or ``low``, ``high`` and ``firm`` (see ``resampling.Certainty``)
``valid``       true: the format is valid
``invalid``     the reason why the submission is invalid
``beyond``      ``memory`` or ``time``: the limit that the worker exceeded
``killed``      true: something other than these limits killed the worker, such as
                a lack of memory on this machine
``defect``      the error of the grader, with a ``traceback``; or how the worker died
``error``       why the job cannot be done, with the ``kind`` of error
``cancelled``   true
==============  ====================================================================
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.data.preparing import heavy_imports, python_paths
from pytest_mlebench.errors import GraderDefect, InvalidSubmission, MLEBenchError
from pytest_mlebench.io.files import REGULAR
from pytest_mlebench.io.processes import (
    adopt_orphans,
    end_orphans,
    end_with,
    has_children,
    kill_group,
    preload,
    read_only,
    readable,
    signal_name,
)
from pytest_mlebench.io.values import loads, parse

MAX_REPLY = 1 << 17
"""Bytes. A reply has up to two long strings; a character of ``_MAX_TEXT`` takes up to 12 bytes."""
_MAX_REQUEST = 1 << 20
_POLL_SECONDS = 0.05
_IDLE_SECONDS = 60.0
MAX_WORKERS = 4
"""Maximum number of workers that a helper keeps, each for one job."""
_LARGE_WORKER = 256 << 20
"""Bytes. A larger worker is not kept while another one is busy."""
_MAX_TEXT = 4000
_GET_NO_NEW_PRIVILEGES, _GET_SECCOMP = 39, 21  # options of prctl
# Importing these takes longer than most gradings, so the helper imports them once for all its workers.
PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pytest_mlebench.authoring.resampling",
    "pytest_mlebench.grading.scorer",
)
Job = dict[str, Any]
Reply = dict[str, Any]
Evaluation = Callable[[Path, bool], Reply]
"""Grades a submission, or checks its format. The second argument requests the certainty instead."""


def main() -> None:
    """Answer requests until the harness closes its end of the socket, or ends."""
    control = socket.socket(fileno=os.dup(0))
    _import(PRELOADED)
    _silence()
    workers: dict[str, _Worker] = {}  # by job, latest last
    while True:
        if not readable([control.fileno()], _IDLE_SECONDS if workers else None):  # release their memory
            _prune(workers, 0)
            end_orphans([])
            continue
        request = _request(control)
        if "cancel" in request:  # its request has already been answered
            continue
        job = request["job"]
        key = json.dumps(job)
        worker = workers.pop(key, None)
        _prune(workers, MAX_WORKERS - 1)
        if worker is None or not worker.alive:
            _import(heavy_imports([Path(job["competition"]) / "grade.py"]))
            worker = _fork(job, close=[control, *(other.channel for other in workers.values())])
        workers[key] = worker
        reply = _handle(worker, request, control)
        if "beyond" in reply or (worker.alive and has_children(worker.pid)):  # which would stay with the worker
            worker.kill()
        end_orphans([other.pid for other in workers.values() if other.alive])
        control.send(json.dumps(reply).encode())


def _request(control: socket.socket) -> Reply:
    """Receive a request; exits if there are no more. Workers end with their parent."""
    message = control.recv(_MAX_REQUEST)
    if not message:
        os._exit(0)
    request: Reply = json.loads(message)
    return request


def _prune(workers: dict[str, _Worker], most: int) -> None:
    """Keep up to ``most`` idle workers, the latest; kill the others, and large ones."""
    for key in list(workers):
        worker = workers[key]
        if len(workers) > most or not worker.alive or _memory(worker.pid) > _LARGE_WORKER:
            worker.kill()
            del workers[key]


def _import(names: Iterable[str]) -> None:
    preload(names)
    if "sklearn.utils.multiclass" in sys.modules:  # its first call searches all installed packages
        with suppress(Exception):
            sys.modules["sklearn.utils.multiclass"].type_of_target(sys.modules["pandas"].Series([0, 1]))


@dataclass(frozen=True)
class _Confinement:
    landlock: int
    no_new_privileges: bool
    seccomp: bool
    memory: int | None
    core: int | None


@dataclass(frozen=True)
class _Certainty:
    low: float
    high: float
    firm: bool | None


@dataclass(frozen=True)
class _WorkerReply:
    """What a worker may reply. Its competition's code runs in the same process and can reply anything."""

    ready: bool = False
    confinement: _Confinement | None = None
    score: float | None = None
    rounded: float | None = None
    certainty: _Certainty | None = None
    valid: bool = False
    invalid: str = ""
    beyond: str = ""
    defect: str = ""
    traceback: str = ""
    error: str = ""
    kind: str = ""


@dataclass
class _Worker:
    """A forked process that does one job."""

    job: Job
    pid: int
    channel: socket.socket
    alive: bool = True

    def death(self) -> Reply:
        """Return the reason why the process ended without a reply."""
        for _ in range(100):  # its socket is closed, so it is ending
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.alive = False
                self.channel.close()
                break
            time.sleep(0.01)
        else:
            self.kill()
            return {"defect": "grading gave no reply"}
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        # Code that does not check whether an allocation succeeded dies in many ways. So every death of a large worker
        # counts as exceeding the limit, also on a machine with less memory than the limit. A small worker that was
        # killed was killed by something else.
        machine_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if usage.ru_maxrss * 1024 > min(self.job["memory"], machine_memory) / 2:
            return {"beyond": "memory"}
        if ended_by == signal.SIGKILL:
            return {"killed": True}
        return {"defect": f"grading ended with {signal_name(ended_by) if ended_by else 'no reply'}"}

    def kill(self) -> None:
        if self.alive:
            kill_group(self.pid)
            os.waitpid(self.pid, 0)
            self.alive = False
            self.channel.close()


def _fork(job: Job, close: Iterable[socket.socket]) -> _Worker:
    channel, workers_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
    helper = os.getpid()
    pid = os.fork()
    if pid:
        workers_end.close()
        channel.setblocking(False)  # a worker may leave requests unread
        return _Worker(job, pid, channel)
    try:
        for other in (*close, channel):
            other.close()
        _confine(job["memory"], helper)
        _work(job, workers_end)
    finally:
        os._exit(1)


def _handle(worker: _Worker, request: Reply, control: socket.socket) -> Reply:
    """Send a request to the worker; returns its reply, or what happened to it."""
    deadline = time.monotonic() + request["seconds"]
    message = json.dumps({key: request.get(key) for key in ("path", "certainty")}).encode()
    descriptors = []
    with suppress(OSError):  # the worker reports the error
        descriptors += [] if request["path"] is None else [os.open(request["path"], REGULAR)]
    with suppress(OSError):  # it has ended, or leaves requests unread
        socket.send_fds(worker.channel, [message], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    replies = worker.channel.fileno()
    while replies not in (ready := readable([control.fileno(), replies], _POLL_SECONDS)):
        if control.fileno() in ready:
            worker.kill()
            _request(control)
            return {"cancelled": True}
        if time.monotonic() > deadline:
            worker.kill()
            return {"beyond": "time"}
        if _memory(worker.pid) > worker.job["memory"]:
            worker.kill()
            return {"beyond": "memory"}
    try:
        answer = worker.channel.recv(MAX_REPLY)
    except OSError:  # it has ended without reading the request
        answer = b""
    if not answer:
        return worker.death()
    try:
        reply = loads(answer)
        parsed = asdict(parse(_WorkerReply, reply))
    except ValueError as error:
        return {"defect": f"grading gave an invalid reply: {error}"}
    if "beyond" in reply:  # the helper itself notices the limit on time
        return {"beyond": "memory"}
    return {key: value for key, value in parsed.items() if key in reply}


def _memory(pid: int) -> int:
    """Return the bytes that a process uses, without mapped files; 0 if unknown."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().split(b"\n")  # the name may have other line breaks
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))


def _confine(memory: int, parent: int) -> None:
    """Limit this worker's memory, and end it with its parent."""
    os.setsid()
    end_with(parent)
    adopt_orphans()
    with suppress(OSError):  # if memory runs out, the kernel kills this before the harness
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _silence() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


# The worker


def _work(job: Job, channel: socket.socket) -> NoReturn:
    landlock, evaluate = 0, None
    opened: dict[Path, int] = {}
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, _MAX_REQUEST, 1)
        if not message:
            os._exit(0)
        request = json.loads(message)
        try:
            if request["path"] is not None:
                opened.update(zip([Path(request["path"])], descriptors, strict=False))
            if evaluate is None:
                landlock, evaluate = _evaluation(job, opened)
            if request["path"] is None:
                reply: Reply = {"ready": True, "confinement": _confinement(landlock)}
            else:
                reply = evaluate(Path(request["path"]), bool(request["certainty"]))
        except MemoryError:
            reply = {"beyond": "memory"}
        except Exception as error:
            reply = _error(error)
        opened.clear()
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(_bounded(reply))


def _evaluation(job: Job, opened: Mapping[Path, int]) -> tuple[int, Evaluation]:
    """Confine the process; returns the version of Landlock, and what to do with submissions.

    A job without ``answers`` is to check the format. ``opened`` has the descriptors of open submissions.
    """
    from pytest_mlebench.grading.scorer import Form, Scorer

    folder, max_bytes = Path(job["competition"]), job["max_bytes"]
    if "answers" not in job:
        public = Path(job["public"])  # private data is next to it, and may be below a virtual environment
        paths = (path for path in python_paths() if not public.is_relative_to(path))
        landlock = read_only([public, folder, Path("/usr"), *paths])
        competition = Competition.load(folder, version=job["version"])
        form = Form(competition, public, max_bytes=max_bytes, opened=opened)

        def check(path: Path, certainty: bool) -> Reply:
            assert not certainty, "a format check has no answers"
            form.check(path)
            return {"valid": True}

        return landlock, check
    landlock = 0  # bundled graders are not restricted
    if job.get("third_party"):
        landlock = read_only([folder, Path(job["answers"]), *python_paths()], listable=map(Path, sys.path))
    competition = Competition.load(folder, version=job["version"])
    if "leaderboard" in job:
        competition = competition.as_twin(Leaderboard(**job["leaderboard"]))
    scorer = Scorer(competition, Path(job["answers"]), max_bytes=max_bytes, opened=opened)

    def grade(path: Path, certainty: bool) -> Reply:
        if certainty:
            found = scorer.certainty(path)
            return {"certainty": None if found is None else asdict(found)}
        score = scorer.score(path)
        return {"score": float(score), "rounded": float(round(score, 5))}

    return landlock, grade


def _confinement(landlock: int) -> dict[str, Any]:
    """Return this process's restrictions as the kernel reports them; sizes in bytes, None for no limit."""
    libc = ctypes.CDLL(None)
    ask = getattr(libc, "prctl", lambda *_: 0)  # Landlock may block /proc

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
    """Encode a reply with long strings cut: tracebacks keep their end, others their beginning."""
    for key, value in reply.items():
        if isinstance(value, str) and len(value) > _MAX_TEXT:
            reply[key] = f"…{value[-_MAX_TEXT:]}" if key == "traceback" else f"{value[:_MAX_TEXT]}…"
    return json.dumps(reply).encode()
