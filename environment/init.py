#!/usr/bin/python3 -I
"""The first process of every container: starts the agent as `nonroot`, and is its way to the submission checker.

It runs as root with hardly a capability, so the agent can neither stop nor trace it, and in one thread of one process,
so that an agent which uses up all processes cannot starve it. It has one channel to the harness, a Unix socket, with a
line of JSON for each message:

    harness -> init   {"command": […], "environment": {…}, "files": {path: text}, "relays": {port: socket name}}
    init -> harness   {"started": true}
    harness -> init   {"signal": "SIGTERM"}
    init -> harness   {"exit_code": 1} or {"signal": "SIGKILL"}, with "oom_kills": number or null

What the agent is given (its secrets among it) comes over this channel and is thus in no container's configuration. When
the channel closes, because the harness died, the container ends. It needs nothing but the standard library.
"""

import asyncio
import contextlib
import json
import os
import pwd
import signal
import socket
import sys
from pathlib import Path

HARNESS = "/opt/mlebench/private/harness"  # the harness's folder of sockets, behind a folder that only root may enter
USER = "nonroot"
CONNECTIONS = 512  # of each relay at once, further ones wait; agents stream hundreds of answers at once
OOM_SCORE = 900  # where memory runs out, a process of the agent goes, not this one
BLOCK = 1 << 16
LINE = 64 << 20


async def main():
    reader, writer = await asyncio.open_unix_connection(f"{HARNESS}/control.sock", limit=LINE)
    order = json.loads(await reader.readline())
    for port, name in order["relays"].items():
        await relay(int(port), f"{HARNESS}/{name}")
    ended = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, lambda: reap(agent, ended))
    agent = start(order)
    reap(agent, ended)  # it may have ended before its number was known
    send(writer, {"started": True})
    commands = asyncio.ensure_future(obey(reader))
    await asyncio.wait([commands, ended], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        os._exit(129)  # nobody is left to report to
    code = ended.result()
    report = {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}
    send(writer, report | {"oom_kills": oom_kills()})
    await writer.drain()
    await asyncio.wait([commands], timeout=60)  # the harness reads the control group, which goes with this process
    os._exit(code if code >= 0 else 128 - code)


def send(writer, message):
    writer.write(json.dumps(message).encode() + b"\n")


async def obey(reader):
    while line := await reader.readline():
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.Signals[json.loads(line)["signal"]])


def reap(agent, ended):
    """Collect every process that ended: orphans come to the first process."""
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
        become(user, order["files"])
        environment = {
            **os.environ,
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


def become(user, files):
    os.setsid()
    os.dup2(1, 2)  # the engine reads two pipes in any order; one keeps the order of what was printed
    os.fchmod(1, 0o622)  # else /dev/stdout and /dev/stderr, which open it anew, are closed to the agent
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored would be inherited
        signal.signal(number, signal.SIG_DFL)
    Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    os.initgroups(USER, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(0o022)
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8")


def oom_kills():
    """How many processes the kernel killed for memory; None where that cannot be read (cgroup v2, then v1)."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(dict(line.split() for line in Path(path).read_text().splitlines())["oom_kill"])
    return None


async def relay(port, path):
    """Offer a socket of the harness at a port of localhost."""
    free = asyncio.Semaphore(CONNECTIONS)

    async def connected(reader, writer):
        async with free:
            try:
                there_reader, there_writer = await asyncio.open_unix_connection(path)
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
