"""Identifies the process that owns a container or folder, even after its death; forks and confines processes.

A process gives up the right to open files, for itself and its children, with Linux's Landlock
(https://docs.kernel.org/userspace-api/landlock.html).
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NoReturn

LABEL = "mlebench."
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def _pid_scope() -> tuple[str, str, str]:
    """Host name, boot id and process namespace: a process id is only meaningful within them."""
    return socket.gethostname(), _BOOT.read_text().strip(), str(Path("/proc/self/ns/pid").readlink())


def owner_labels() -> dict[str, str]:
    """Labels that identify this process across machines and reboots."""
    host, boot, namespace = _pid_scope()
    pid = os.getpid()
    values = {"host": host, "boot": boot, "pid-namespace": namespace, "pid": pid, "pid-start": start_time(pid)}
    return {LABEL + key: str(value) for key, value in values.items()}


def is_dead(labels: Mapping[str, str]) -> bool:
    """Whether the process with these labels has ended; False if this cannot be determined from here."""
    host, boot, namespace = _pid_scope()
    if labels.get(f"{LABEL}host") != host:
        return False
    if labels.get(f"{LABEL}boot") != boot:
        return f"{LABEL}boot" in labels
    pid = labels.get(f"{LABEL}pid", "")
    if labels.get(f"{LABEL}pid-namespace") != namespace or not re.fullmatch("[0-9]{1,19}", pid):
        return False
    return start_time(int(pid)) != labels.get(f"{LABEL}pid-start")


def start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty if it is not running. Process ids are reused."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()  # the program's name in it may be any bytes
    except OSError:
        return ""
    state, *fields = stat.rpartition(b")")[2].decode().split()
    return "" if state in "ZX" else fields[18]


def signal_name(number: int) -> str:
    """A signal's name, such as SIGKILL; for most real-time signals, which have none, such as "signal 35"."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def owned_prefix(prefix: str) -> str:
    """A prefix for a temporary folder's name that identifies its owner, this process (see ``dead_folders``)."""
    return f"{prefix}{_machine_hash()}-{os.getpid()}-{start_time(os.getpid())}-"


def _machine_hash() -> str:
    """Short hash of host name and process namespace, but not boot id: folders on shared storage survive reboots."""
    host, _, namespace = _pid_scope()
    return hashlib.sha256(f"{host} {namespace}".encode()).hexdigest()[:6]


def dead_folders(prefix: str, bases: Iterable[Path]) -> list[Path]:
    """This user's folders in ``bases`` that a process here, now ended, named with ``owned_prefix(prefix)``."""
    name = re.compile(rf"{re.escape(prefix)}{_machine_hash()}-(?P<pid>\d+)-(?P<start>\d+)-")
    found = []
    for base in set(bases):
        for folder in base.glob(f"{prefix}*"):
            match = name.match(folder.name)
            if match is None or start_time(int(match["pid"])) == match["start"]:
                continue
            with suppress(FileNotFoundError):  # another session removed it
                if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                    found.append(folder)
    return sorted(found)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Context manager: SIGTERM raises KeyboardInterrupt in the main thread, unless SIGTERM already has a handler."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("SIGTERM")


def end_with(parent: int) -> None:
    """Make this process end with its parent, and disable its core dumps."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


_STOP_SECONDS = 5.0
_SERVE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from pytest_mlebench.io.processes import serve; serve()"
)


class ForkServer:
    """A process that imports modules once and forks children, which takes milliseconds instead of a second.

    It does not read its children's input, so that no child finds another's input in its memory. It ends with this
    object or this process, and its children end with it.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._lock = threading.Lock()
        self._orders, orders = socket.socketpair()
        search_path = [str(Path(entry).absolute()) for entry in sys.path]
        with orders:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVE, json.dumps(search_path)],
                stdin=orders.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                cwd="/",
                start_new_session=True,  # the harness handles Ctrl-C
            )
        weakref.finalize(self, _end, self._orders, process, os.getpid())

    def fork(self, function: Callable[..., object], descriptors: Sequence[int], preload: Iterable[str] = ()) -> Forked:
        """Fork a process that leads its own process group and calls a function of a module.

        The first three descriptors become its standard input, output and error; the function receives the others.
        ``preload`` names modules that the server tries to import first. Raises OSError.
        """
        words = [f"{function.__module__}:{function.__name__}", *preload]
        return Forked(self, self.order(" ".join(words), descriptors))

    def order(self, order: str, descriptors: Sequence[int] = ()) -> int:
        with self._lock:
            try:
                socket.send_fds(self._orders, [order.encode()], descriptors)
                answer = self._orders.recv(32)
            except BaseException:  # a late answer would be mistaken for the next one
                self._orders.close()
                raise
        if not answer:
            raise ConnectionResetError("the fork server has ended")
        return int(answer)


@dataclass(frozen=True)
class Forked:
    """A process that a ``ForkServer`` has forked."""

    server: ForkServer
    pid: int

    def end(self) -> int:
        """Let the server kill the process, if it is still running, and all that it started. Returns its exit status,
        or the negative number of the signal.

        Raises OSError if the server has ended: the process ended with it, but detached ones may still run.
        """
        return self.server.order(str(self.pid))


def _end(orders: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    orders.close()
    if owner != os.getpid():  # in a forked child
        return
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def readable(descriptors: Sequence[int], timeout: float | None) -> set[int]:
    """Wait at most ``timeout`` seconds until a descriptor has data or was closed. Returns those that did."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if timeout is None else timeout * 1000)}


def serve() -> NoReturn:
    """Execute orders from standard input until it is closed, as the process of a ``ForkServer``."""
    orders, server = socket.socket(fileno=os.dup(0)), os.getpid()
    children = set[int]()
    adopt_orphans()
    while True:
        order, descriptors, *_ = socket.recv_fds(orders, 1 << 16, 4)
        if not order:
            end_orphans([])
            os._exit(0)
        if descriptors:
            function, *names = order.decode().split()
            preload(names)
            answer = os.fork()
            if answer == 0:
                orders.close()
                _run_child(function, descriptors, server)
            children.add(answer)
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            children.remove(int(order))
            kill_group(int(order))
            answer = os.waitstatus_to_exitcode(os.waitpid(int(order), 0)[1])
            end_orphans(children)
        orders.send(str(answer).encode())


def kill_group(child: int) -> None:
    """Kill a child process, and the process group that it leads."""
    for kill in (os.killpg, os.kill):  # it may not lead its group yet
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose own parent ends. Its children do not inherit this."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_orphans(children: Collection[int]) -> None:
    """Kill all descendants of this process, which adopts orphans, except ``children`` and their descendants.

    The children of a killed process become children of this one, so this continues until there are no others.
    """
    while orphans := [pid for pid in _child_ids(os.getpid()) if pid not in children]:
        for pid in orphans:
            kill_group(pid)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def has_children(pid: int) -> bool:
    """Return whether a process has children, running or not yet waited for."""
    return bool(_child_ids(pid))


def _child_ids(pid: int) -> list[int]:
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:  # the kernel lacks this file, or a thread has ended; searching all processes is slower
        return [int(folder.name) for folder in Path("/proc").glob("[1-9]*") if _parent(folder) == pid]


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):  # it has ended
        return 0


def preload(names: Iterable[str]) -> None:
    """Import modules for the processes that this one forks."""
    if names := [name for name in names if name not in sys.modules]:
        for name in names:
            with suppress(Exception):  # the process that needs it reports the error
                importlib.import_module(name)
        gc.collect()
        gc.freeze()  # so that garbage collection in children does not copy these objects


def _run_child(function: str, descriptors: Sequence[int], server: int) -> NoReturn:
    try:
        os.setsid()
        end_with(server)
        adopt_orphans()
        for number, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        importlib.invalidate_caches()
        module, _, name = function.partition(":")
        with suppress(OSError, AttributeError):  # its name in `top` and `pkill`
            ctypes.CDLL(None).prctl(15, module.removeprefix("pytest_mlebench.").encode())  # PR_SET_NAME
        getattr(importlib.import_module(module), name)(*descriptors[3:])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all architectures
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_ALL_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
"""By Landlock ABI version; later versions use the last entry."""
_ALL_TCP_RIGHTS = 3
_ALL_SCOPES = 3  # abstract Unix sockets and signals
_FILE_RIGHTS = _READ_FILE | 1 << 1 | 1 << 14  # read, write and truncate


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_, _layout_ = 1, "ms"  # Python 3.14 requires it
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def read_only(paths: Iterable[Path], writable: Iterable[Path] = (), listable: Iterable[Path] = ()) -> int:
    """Restrict this process to reading files below these paths. From Landlock ABI version 4, this also blocks TCP, and
    from version 6 signals to other processes than its descendants.

    Files below ``writable`` can also be written, and folders below ``listable`` can be listed. Open files stay open.
    Returns the ABI version, or 0 if the system does not support this.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):  # also without Landlock: a program with more could not be killed
        return 0
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return 0
    every = _ALL_FILE_RIGHTS[min(version, 3)]
    handled = _Ruleset(every, _ALL_TCP_RIGHTS if version >= 4 else 0, _ALL_SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
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
        confined = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
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
