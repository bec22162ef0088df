"""Attacks that are easily overlooked: endless pipes, multiplied links, daemons at the end, leases, signals."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import psutil
import pytest

from pytest_mlebench.runs.files import open_files, unpack
from pytest_mlebench.sandbox import Ending
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Result, Runner, python

pytestmark = [pytest.mark.docker, pytest.mark.serial]

END_SECONDS = 40
"""Longer than any normal end of a run, and shorter than the delay of a successful attack."""


@pytest.fixture(scope="module")
def left(module_runner: Runner) -> Result:
    """The result of an agent that leaves links, devices and unsafe files."""
    return module_runner(
        f"""
        {SUBMIT}
        cd $LOGS_DIR; head -c 4M /dev/zero > big; for i in $(seq 60); do ln big big-$i; done
        ln -s /proc/self/fd/0 fd; ln -s /proc/1/root root; ln -s /proc/self/cwd/../../etc etc; ln -s /dev/zero zero
        mkdir -m 0 closed; touch -d 2100-01-01 future; touch -d 1901-01-01 past
        cd $CODE_DIR; cp /bin/bash suid; chmod 6777 suid; mkdir -m 3777 open; touch open/x
        """
        + python("import os; open('/home/code/marked', 'w'); os.setxattr('/home/code/marked', 'user.x', b'y' * 1000)")
        + "; true",
        collect_bytes=16 * MB,
    )


def test_links_to_one_big_file_want_to_count_as_many_big_files(left: Result) -> None:
    with open_files(left.run_dir) as files:
        assert sum(file.size for file in files.below("logs")) <= 16 * MB


def test_links_want_to_lead_to_processes_and_devices(left: Result) -> None:
    assert not [path for path in left.run_dir.rglob("*") if path.is_symlink()]
    with open_files(left.run_dir) as files:
        assert files.get("logs/zero") is None and files.get("logs/root") is None


def test_programs_want_to_keep_the_rights_of_another_user(left: Result) -> None:
    unpack(left.run_dir, left.run_dir.parent / "unpacked")
    found = [*left.run_dir.rglob("*"), *(left.run_dir.parent / "unpacked").rglob("*")]
    assert any(path.name == "suid" for path in found) and not any(path.lstat().st_mode & 0o7000 for path in found)


def test_extended_attributes_want_to_be_collected(left: Result) -> None:
    assert not [path for path in left.run_dir.rglob("*") if os.listxattr(path)]


@pytest.mark.parametrize("writer", ["yes > $F", "sleep 600 > $F", "sleep 600 < $F"])
def test_a_pipe_without_an_end_wants_to_be_the_submission(writer: str, attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"export F=$SUBMISSION_DIR/submission.csv; mkfifo $F; ({writer} &); sleep 0.2")
    assert (result.execution.ending, result.submission) == (Ending.FINISHED, None)
    assert time.monotonic() - started < END_SECONDS


def test_a_daemon_wants_to_outlive_a_successful_agent(attack: Runner) -> None:
    name = f"daemon-{uuid.uuid4().hex}"
    result = attack(
        f"{SUBMIT}; (setsid nohup bash -c \"trap '' TERM HUP INT; while true; do exec -a {name} sleep 600; done\" "
        "> /dev/null 2>&1 &); sleep 0.2"
    )
    assert (result.execution.ending, result.submission) == (Ending.FINISHED, SAMPLE)
    commands = (" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    assert not any(name in command for command in commands)


def test_a_fork_bomb_at_the_end_wants_to_delay_the_ending(attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"{SUBMIT}; bomb() {{ bomb | bomb & }}; bomb; exit 0", processes=128, time_limit=60)
    assert (result.execution.ending, result.submission) == (Ending.FINISHED, SAMPLE)
    assert time.monotonic() - started < END_SECONDS


def test_a_daemon_wants_to_change_the_submission_while_it_is_collected(attack: Runner) -> None:
    flip = "while true; do echo a > $F.new; mv $F.new $F; ln -sf /etc/passwd $F.new; mv $F.new $F; done"
    result = attack(f"{SUBMIT}; export F=$SUBMISSION_DIR/submission.csv; (setsid bash -c '{flip}' &); sleep 0.5")
    path = result.run_dir / "submission/submission.csv"
    assert not path.is_symlink() and result.submission in (None, "a\n", SAMPLE)


def test_signals_want_to_end_or_stop_the_first_process(attack: Runner) -> None:
    signals = " ".join(f"kill -{number} 1 2>/dev/null && echo sent;" for number in (1, 2, 3, 6, 9, 11, 15, 19, 20, 64))
    result = attack(f"{signals} {SUBMIT}; exit 7")
    assert (result.execution.exit_code, result.submission) == (7, SAMPLE)
    assert "sent" not in result.log


def test_descriptors_want_to_be_inherited(attack: Runner) -> None:
    result = attack("ls /proc/self/fd; ls -l /opt/mlebench/private /opt/mlebench/private/harness 2>&1 | grep -c denied")
    *descriptors, denied = result.log.split()
    assert set(descriptors) <= {"0", "1", "2", "3"}  # ls itself opens one
    assert denied != "0"


def test_keys_of_the_kernel_want_to_be_shared(attack: Runner) -> None:
    code = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for number in (248, 249, 250):  # add_key, request_key, keyctl
            assert libc.syscall(number, b"user", b"x", b"y", 1, -4) < 0 and ctypes.get_errno() in (1, 38)
        print("refused")
    """
    assert attack(python(code)).log.split() == ["refused"]


def test_a_lease_wants_to_delay_processes_that_open_the_data(attack: Runner) -> None:
    """The owner of a file can delay its opening by 45 s, and a user of this machine may have the agent's user ID."""
    for path in attack.public.rglob("*"):
        os.chown(path, 1000, 1000)
    code = """
        import ctypes, fcntl, os
        libc = ctypes.CDLL(None, use_errno=True)
        print(os.getuid(), os.stat("/home/data/sample_submission.csv").st_uid)
        data = os.open("/home/data/sample_submission.csv", os.O_RDONLY)
        own = os.open("/home/own", os.O_RDONLY | os.O_CREAT)
        for command in (1024, 1 << 32 | 1024):  # F_SETLEASE, as the kernel reads both
            for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
                for file in (data, own):
                    if libc.syscall(72, ctypes.c_long(file), ctypes.c_long(command), ctypes.c_long(kind)) == 0:
                        print("leased")
        fcntl.flock(own, fcntl.LOCK_EX); fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK)
        fcntl.fcntl(own, fcntl.F_DUPFD_CLOEXEC, 50); print("works")
    """
    assert attack(python(code)).log.split()[2:] == ["works"]


LORIS = """
    import os, socket, time
    for port in {ports}:
        for n in range(80):
            try:
                s = socket.create_connection(("localhost", port), 2)
                s.sendall(b"POST /validate HTTP/1.1\\r\\nContent-Length: 100000\\r\\n"
                          b"Content-Type: multipart/form-data; boundary=x\\r\\n" + (b"\\r\\n--x" if n % 2 else b""))
                globals()[f"s{{n}}{{port}}"] = s
            except OSError: pass
    if os.fork(): os._exit(0)
    time.sleep(600)
"""


def test_silent_connections_want_to_delay_the_ending(attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"{SUBMIT}; {python(LORIS.format(ports=(5000, 3128)))}")
    assert (result.execution.ending, result.submission) == (Ending.FINISHED, SAMPLE)
    assert time.monotonic() - started < END_SECONDS


def test_other_protocols_want_to_pass_the_proxy(attack: Runner) -> None:
    code = r"""
        import socket
        def say(port, data):
            s = socket.create_connection(("localhost", port), 5)
            s.sendall(data); s.shutdown(socket.SHUT_WR)
            return s.recv(100).split(b"\r\n")[0]
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eA==\r\n\r\n"
        for data in (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
            b"GET http://api.openai.com/ HTTP/1.1\r\nHost: api.openai.com\r\n" + upgrade,
            b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n",
            b"CONNECT API.OPENAI.COM.:443@127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"CONNECT 127.0.0.1.nip.io:22 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x05\x01\x00", b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
            b"GET / HTTP/1.1\r\nHost: localhost:5000\r\n\r\n",
        ):
            print("answer", say(3128, data).decode("latin-1"))
        print("answer", say(5000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").decode("latin-1")[:12])
    """
    lines = [line for line in attack(python(code)).log.splitlines() if line.startswith("answer ")]
    assert {line.split()[2] for line in lines[:8]} == {"403"}
    assert "200" not in lines[8]


def test_a_changed_clock_wants_more_time(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; export TZ=Pacific/Kiritimati; (sleep 0.5; kill -STOP -1) & date -s '2001-01-01' 2>/dev/null; "
        + python(
            """
            import signal, time
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
            while True: time.sleep(1)
            """
        ),
        time_limit=3,
    )
    assert (result.execution.ending, result.submission) == (Ending.TIMED_OUT, SAMPLE)
    assert result.execution.seconds < 3 + 5 + 1  # the limit, the grace period, and the interval of clock checks


def test_output_that_is_not_lines_of_text_wants_to_break_the_log(attack: Runner) -> None:
    result = attack("head -c 3M /dev/urandom; printf '\\xff\\xfe\\r\\0\\x1b]0;x\\x07' ; exit 3", log_bytes=MB)
    assert result.execution.exit_code == 3
    assert Path(result.run_dir / "run.log").stat().st_size < MB * 1.1
