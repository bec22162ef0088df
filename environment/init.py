#!/usr/bin/python3 -I
"""The first process of every container: starts the agent as `nonroot`, and connects it to the submission checker.

It runs as root with almost no capabilities, so the agent can neither stop nor trace it. It has one thread and one
process, so an agent that uses up all processes cannot starve it. If the container has only the user that started it
(Apptainer), it runs as the agent's user. It then hides its memory and files. The kernel does not deliver the agent's
signals to it, because it is the first process of its namespace. It has one channel to the harness, a Unix socket with
one line of JSON per message:

    harness -> init   {"command": […], "environment": {…}, "files": {path: text}, "relays": {port: socket name},
                       "gpus": [UUIDs], "user": number, "limits": {name of RLIMIT_…: number},
                       "filter": a filter of system calls in base64}
    init -> harness   {"started": true}
                      or {"gpus_seen": number}, if that is fewer than ordered; the agent is then not started
    harness -> init   {"signal": "SIGTERM"}
    init -> harness   {"exit_code": 1} or {"signal": 9}, with "oom_kills": number or null

The agent's inputs, including its secrets, come over this channel, so they are not in the container's configuration.
When the channel closes because the harness died, the container ends. Only the standard library is needed.

If the order names a socket as "submission", the harness uses it to fetch the submission while the agent writes it. An
identity is five numbers that identify one version of a file:

    harness -> init   {"look": true}
    init -> harness   {"identity": […]}, or null if it is not a regular file
    harness -> init   {"copy": […]}, with the identity that was found
    init -> harness   {"size": number}, the bytes, {"identity": […]}; or {"size": null} if the file has changed
"""

import asyncio
import base64
import contextlib
import ctypes
import json
import os
import pwd
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path

# The folder of the harness's sockets, inside a folder that only root can enter.
HARNESS = sys.argv[1] if len(sys.argv) > 1 else "/opt/mlebench/private/harness"
ROOT = os.getuid() == 0
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38
SECCOMP_MODE_FILTER = 2
USER = "nonroot"
CONNECTIONS = 512  # maximum per relay, more wait; agents stream hundreds of answers at once
OOM_SCORE = 900  # if memory runs out, the kernel kills a process of the agent, not this one
BLOCK = 1 << 16
LINE = 64 << 20
SUBMISSION = ("/home/submission", "submission.csv")
PASSWORDS = Path("/etc/passwd")
HOME, SHARED = "/home", "/home/data"
OWNED_BYTES = 1 << 20  # larger files keep their owner (and group access), or the runtime would have to copy them
OWNED_ENTRIES = 20_000


async def main():
    if not ROOT:
        os.open("/dev/shm", os.O_RDONLY | os.O_DIRECTORY)  # the harness uses it to see how full /dev/shm is
    reader, writer = await asyncio.open_unix_connection(f"{HARNESS}/control.sock", limit=LINE)
    order = json.loads(await reader.readline())
    if not ROOT:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # relays need more than the agent's limit
        rename()
    if ROOT:
        renumber(order["user"])
    if (seen := gpus_seen(order["gpus"])) < len(order["gpus"]):
        send(writer, {"gpus_seen": seen})
        await writer.drain()
        await reader.read()  # the harness ends the container after it has read this
        os._exit(1)
    for port, name in order["relays"].items():
        await relay(int(port), f"{HARNESS}/{name}")
    tasks = [show_submission(f"{HARNESS}/{order['submission']}")] if order["submission"] else []
    background = [asyncio.ensure_future(task) for task in tasks]
    ended = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, lambda: reap(agent, ended))
    agent = start(order)
    reap(agent, ended)  # it may have ended before its pid was known
    send(writer, {"started": True})
    commands = asyncio.ensure_future(obey(reader))
    await asyncio.wait([commands, ended], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        os._exit(129)  # the harness has gone
    code = ended.result()
    for task in background:
        task.cancel()
    report = {"signal": -code} if code < 0 else {"exit_code": code}
    send(writer, report | {"oom_kills": oom_kills()})
    await writer.drain()
    await asyncio.wait([commands], timeout=60)  # the harness reads the control group, which ends with this process
    os._exit(code if code >= 0 else 128 - code)


def gpus_seen(uuids):
    """Return how many of these GPUs the driver lists; without nvidia-smi, how many GPU devices there are."""
    if not uuids:
        return 0
    user = pwd.getpwnam(USER)
    try:
        run = subprocess.run(
            ["nvidia-smi", "-L"],
            capture_output=True,
            timeout=60,
            **({"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if ROOT else {}),
            env={"PATH": "/usr/bin:/bin:/usr/local/bin:/usr/local/nvidia/bin"},
        )
        return len({uuid for uuid in uuids if f"(UUID: {uuid})".encode() in run.stdout})
    except (OSError, subprocess.SubprocessError):
        return sum(path.name.removeprefix("nvidia").isdecimal() for path in Path("/dev").glob("nvidia*"))


def renumber(wanted):
    """Give the agent's user a separate uid, because the kernel limits watches, signals, pipes … per uid."""
    old = pwd.getpwnam(USER)
    number = available(wanted)
    if number is None or old.pw_uid == 0:
        return
    lines = [line.split(":") for line in PASSWORDS.read_text(errors="surrogateescape").splitlines()]
    text = "".join(":".join([*line[:2], str(number), *line[3:]] if line[0] == USER else line) + "\n" for line in lines)
    PASSWORDS.write_text(text, errors="surrogateescape")
    if pwd.getpwnam(USER).pw_uid != number:
        raise ValueError(f"the image does not define its user {USER} in {PASSWORDS}")
    hand_over(HOME, number, [OWNED_ENTRIES])


def rename():
    """Rename this process's user to the agent's, whose home is in the image. The runtime used the host user's name."""
    with contextlib.suppress(OSError):
        lines = [line.split(":") for line in PASSWORDS.read_text(errors="surrogateescape").splitlines()]
        others = [":".join(line) for line in lines if len(line) > 2 and line[0] != USER and line[2] != str(os.getuid())]
        own = f"{USER}:x:{os.getuid()}:{os.getgid()}::{HOME}/{USER}:/bin/bash"
        PASSWORDS.write_text("".join(f"{line}\n" for line in [*others, own]), errors="surrogateescape")


def available(wanted):
    """Return this uid, or a substitute if the namespace does not have it; None if the namespace has too few uids."""
    maps = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    if any(first <= wanted < first + count for first, _, count in maps):
        return wanted
    first, _, count = max(maps, key=lambda entry: entry[2])
    return first + count // 2 + wanted % (count // 2) if count >= 1 << 15 else None


def hand_over(folder, number, left):
    """Make the agent's user the owner of a folder and its contents, without following links.

    Root owns a folder while listing it, because it has no capability to read other users' folders.
    """
    os.chown(folder, 0, -1, follow_symlinks=False)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                left[0] -= 1
                if left[0] < 0:
                    return
                if entry.path == SHARED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    hand_over(entry.path, number, left)
                elif not entry.is_file(follow_symlinks=False) or entry.stat().st_size <= OWNED_BYTES:
                    os.chown(entry.path, number, -1, follow_symlinks=False)
    finally:
        os.chown(folder, number, -1, follow_symlinks=False)


def send(writer, message):
    writer.write(json.dumps(message).encode() + b"\n")


async def obey(reader):
    while line := await reader.readline():
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.Signals[json.loads(line)["signal"]])


def reap(agent, ended):
    """Collect every process that has ended: orphans become children of the first process."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid == agent and not ended.done():
            ended.set_result(os.waitstatus_to_exitcode(status))


def start(order):
    user = pwd.getpwnam(USER)
    pid = os.fork()
    if pid:
        return pid
    try:
        become(user, order["files"], order.get("limits", {}), order.get("filter", ""))
        runtimes = ("APPTAINER_", "SINGULARITY_", "PS1", "PROMPT_COMMAND")  # variables that these set
        environment = {
            **{name: value for name, value in os.environ.items() if ROOT or not name.startswith(runtimes)},
            "HOME": user.pw_dir,
            "USER": USER,
            "LOGNAME": USER,
            "SHELL": "/bin/bash",
            **order["environment"],
        }
        os.execvpe(order["command"][0], order["command"], environment)
    except BaseException as error:
        os.write(2, f"the agent cannot be started: {error}\n".encode())
    finally:
        os._exit(126)


def become(user, files, limits, program):
    if ROOT and user.pw_uid == 0:
        raise PermissionError(f"the Dockerfile made {USER} another name for root")
    os.setsid()
    os.dup2(1, 2)  # one pipe keeps the order of the output; the runtime reads two in any order
    os.fchmod(1, 0o622)  # otherwise the agent cannot open /dev/stdout and /dev/stderr
    if not ROOT:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # the agent owns its files in /proc again
    # Python ignores two of these signals, and the agent would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    if ROOT:
        os.initgroups(USER, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    os.umask(0o022)
    for name, number in limits.items():
        resource.setrlimit(getattr(resource, name), (number, number))
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8")
    if program:
        apply(base64.b64decode(program))


def apply(program):
    """Make the kernel refuse the system calls that a filter does not allow, for this process and its children."""
    length, code = len(program) // 8, ctypes.create_string_buffer(program)
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", length, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_):
        raise OSError(ctypes.get_errno(), "cannot set the filter of system calls")


def oom_kills():
    """Return how many processes the kernel killed for memory; None if that is unknown (cgroup v2, then v1)."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(dict(line.split() for line in Path(path).read_text().splitlines())["oom_kill"])
    return None


async def relay(port, path):
    """Forward a port of localhost to a socket of the harness."""
    free = asyncio.Semaphore(CONNECTIONS)

    async def connected(reader, writer):
        async with free:
            try:
                there_reader, there_writer = await connection_to(path)
            except OSError:
                writer.close()
                return
            await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer), return_exceptions=True)
            for end in (writer, there_writer):
                end.close()

    await asyncio.start_server(connected, "127.0.0.1", port, backlog=CONNECTIONS)
    if socket.has_ipv6:
        with contextlib.suppress(OSError):  # the container has no IPv6
            await asyncio.start_server(connected, "::1", port, backlog=CONNECTIONS)


async def connection_to(path):
    """Connect to a Unix socket. Retries while its listener is busy; asyncio would treat the refusal as success."""
    there = socket.socket(socket.AF_UNIX)
    there.setblocking(False)
    while True:
        try:
            there.connect(path)
            return await asyncio.open_unix_connection(sock=there)
        except BlockingIOError:
            await asyncio.sleep(0.01)
        except OSError:
            there.close()
            raise


async def show_submission(path):
    with contextlib.suppress(OSError, ValueError, KeyError):  # a failure must not end the run
        reader, writer = await asyncio.open_unix_connection(path)
        while line := await reader.readline():
            question = json.loads(line)
            if "look" in question:
                send(writer, {"identity": look()})
            else:
                await copy(tuple(question["copy"]), writer)
            await writer.drain()


def look():
    with contextlib.suppress(OSError), rights_of_the_agent(), opened(SUBMISSION[0], os.O_DIRECTORY) as folder:
        return identity(os.stat(SUBMISSION[1], dir_fd=folder, follow_symlinks=False))


async def copy(wanted, writer):
    with contextlib.ExitStack() as stack:
        try:
            with rights_of_the_agent(), opened(SUBMISSION[0], os.O_DIRECTORY) as folder:
                try:  # only the owner may read without changing the file's access time
                    file = stack.enter_context(opened(SUBMISSION[1], os.O_NONBLOCK | os.O_NOATIME, dir_fd=folder))
                except PermissionError:
                    file = stack.enter_context(opened(SUBMISSION[1], os.O_NONBLOCK, dir_fd=folder))
        except OSError:
            file = None
        if file is None or identity(os.fstat(file)) != wanted:
            send(writer, {"size": None})
            return
        left = wanted[2]
        send(writer, {"size": left})
        while left:
            block = os.read(file, min(BLOCK, left)) or bytes(min(BLOCK, left))  # it shrank: the identity shows that
            writer.write(block)
            await writer.drain()
            left -= len(block)
        send(writer, {"identity": identity(os.fstat(file))})


def identity(status):
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextlib.contextmanager
def opened(path, flags, **options):
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flags, **options)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def rights_of_the_agent():
    """Context manager: open files as the agent's user, but stay root, so that the agent cannot signal or trace this."""
    user = pwd.getpwnam(USER)
    libc = ctypes.CDLL(None)
    libc.setfsgid(user.pw_gid)
    libc.setfsuid(user.pw_uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)


async def pump(reader, writer):
    try:
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()
        raise


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"init: {type(error).__name__}: {error}")
