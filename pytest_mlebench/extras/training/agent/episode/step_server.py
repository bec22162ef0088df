"""Runs an episode's commands in the sandbox. Each line of input and of output is a JSON object.

{"run": command, "timeout": seconds, "keep": bytes}  ->  {"output", "omitted", "exit_code", "seconds", "killed", …}
{"read": path, "most": bytes, "plain": true}         ->  {"data": base64} or {"error": text}; if plain, no links
{"write": path, "data": base64}                      ->  {} or {"error": text}

The first line of output has ``folders``, by their variables. Each answer has ``submission``, which identifies the
version of the submission file, or is null. The program needs only the standard library, and little of it, since each
episode waits for its imports. Commands can manipulate it, so the harness treats its output as untrusted.
"""

from __future__ import annotations

import binascii
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

SUBMISSION = os.path.join(os.environ["SUBMISSION_DIR"], "submission.csv")
FOLDERS = ("DATA_DIR", "SUBMISSION_DIR", "LOGS_DIR", "CODE_DIR")
DRAIN_SECONDS = 0.2
BLOCK = 1 << 16


class Output:
    """The first and the last bytes that a command prints. The bytes between them are only counted."""

    def __init__(self, pipe: IO[bytes], keep: int) -> None:
        self._pipe, self._head_bytes, self._tail_bytes = pipe, keep // 2, keep - keep // 2
        self._head, self._tail, self._all = b"", b"", 0
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while block := os.read(self._pipe.fileno(), BLOCK):
            with self._lock:
                self._all += len(block)
                space = self._head_bytes - len(self._head)
                self._head += block[:space]
                self._tail = (self._tail + block[space:])[-self._tail_bytes :]

    def parts(self) -> tuple[str, int, str]:
        with self._lock:
            omitted = max(0, self._all - len(self._head) - len(self._tail))
            return self._head.decode("utf-8", "replace"), omitted, self._tail.decode("utf-8", "replace")


def run(order: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", order["run"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=os.environ["CODE_DIR"],
        env={name: value for name, value in os.environ.items() if name != "STEPS_ADDRESS"},
        start_new_session=True,
    )
    assert process.stdout is not None
    output = Output(process.stdout, order["keep"])
    killed = False
    try:
        process.wait(order["timeout"])
    except subprocess.TimeoutExpired:
        killed = True
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    seconds = time.monotonic() - started
    output.thread.join(DRAIN_SECONDS)  # a background process may keep the pipe open: further output is discarded
    head, omitted, tail = output.parts()
    return {
        "head": head,
        "omitted": omitted,
        "tail": tail,
        "exit_code": process.returncode,
        "seconds": seconds,
        "killed": killed,
    }


def open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK, 0o666)  # does not wait for the other end of a pipe


def read(order: dict[str, Any]) -> dict[str, Any]:
    path = os.path.expandvars(order["read"])
    if order.get("plain") and not stat.S_ISREG(os.lstat(path).st_mode):
        return {"error": "it is not a regular file"}
    with open(path, "rb", opener=open_without_blocking) as file:
        data = file.read(order["most"] + 1) or b""
    if len(data) > order["most"]:
        return {"error": f"it has more than {order['most']} bytes"}
    return {"data": binascii.b2a_base64(data, newline=False).decode()}


def write(order: dict[str, Any]) -> dict[str, Any]:
    path = os.path.expandvars(order["write"])
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb", opener=open_without_blocking) as file:
        file.write(binascii.a2b_base64(order["data"]))
    return {}


def submission() -> list[int] | None:
    try:
        status = os.lstat(SUBMISSION)
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def main() -> None:
    address = os.environ["STEPS_ADDRESS"]
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
    else:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)))
    os.chdir(os.environ["CODE_DIR"])
    with connection, connection.makefile("rb") as orders:
        folders = {f"${name}": os.environ[name] for name in FOLDERS}
        folders["$(dirname $INSTRUCTIONS)"] = os.path.dirname(os.environ["INSTRUCTIONS"])
        connection.sendall(json.dumps({"folders": folders}).encode() + b"\n")
        for line in orders:
            order = json.loads(line)
            act = run if "run" in order else read if "read" in order else write
            try:
                answer = act(order)
            except (OSError, ValueError) as error:
                answer = {"error": str(error)}
            answer["submission"] = submission()
            connection.sendall(json.dumps(answer).encode() + b"\n")


main()
