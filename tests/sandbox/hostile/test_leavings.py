"""Attacks through leftovers: an agent wants its run to count as an error of the harness, to delay it, or to
take resources of other runs. Each test fails if the attack succeeds."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_mlebench.sandbox import Ending
from pytest_mlebench.sandbox.wiring import raise_descriptor_limit
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Runner, python

pytestmark = [pytest.mark.docker, pytest.mark.serial]


WITH_RESULT = {
    "to keep its files from being read": "chmod 000 $SUBMISSION_DIR/submission.csv $SUBMISSION_DIR $CODE_DIR $LOGS_DIR",
    "a file and a link for folders": "rm -rf $LOGS_DIR $CODE_DIR; touch $LOGS_DIR; ln -s / $CODE_DIR",
    "processes and a loop of links for folders": (
        "rm -rf $CODE_DIR $LOGS_DIR; ln -s /proc $CODE_DIR; ln -s ../home/logs $LOGS_DIR"
    ),
    "names with shell or terminal commands": (
        "cd $LOGS_DIR; touch -- $'a\\nb' $'\\u202egpj.exe' $'\\e[2Jx' ' ' -rf '~' 'a:b' $'\\xff\\xfe' ... '\\'; "
        "mkdir $'\\n'; touch $'\\n/\\t'"
    ),
    "a file of a terabyte": "truncate -s 1T $LOGS_DIR/a; truncate -s 8T $CODE_DIR/b",
    "impossible file times": "touch -d @99999999999 $LOGS_DIR/c; touch -d @-99999999999 $CODE_DIR/d",
    "to kill every process it can": "kill -9 -1",
    "pipes and sockets in every folder": (
        "for d in $LOGS_DIR $CODE_DIR $SUBMISSION_DIR; do mkfifo $d/p; done; "
        + python("import socket; socket.socket(socket.AF_UNIX).bind('/home/logs/s')")
    ),
    "folders deeper than any path": python(
        """
        import os
        os.chdir(os.environ["LOGS_DIR"])
        for _ in range(40): os.mkdir("n" * 255); os.chdir("n" * 255)
        open("x", "w").close()
        """
    ),
    "two thousand links in a circle": "cd $LOGS_DIR; ln -s . a; "
    + python("import os\nfor n in range(2000): os.symlink('/home/logs', f'/home/logs/{n}')"),
    "all queues and semaphores": python(
        """
        import ctypes
        libc = ctypes.CDLL(None)
        for n in range(2000): libc.mq_open(b"/%d" % n, 0o102, 0o600, None)
        for n in range(40000): libc.msgget(0, 0o1600), libc.semget(0, 10, 0o1600)
        """
    ),
    "all descriptors": python(
        """
        import os
        try:
            while True: os.open("/dev/null", 0)
        except OSError: pass
        """
    ),
}


@pytest.mark.parametrize("wish", WITH_RESULT)
def test_an_agent_wants(wish: str, module_runner: Runner) -> None:
    result = module_runner(f"{SUBMIT}; {WITH_RESULT[wish]}; exit 3", collect_bytes=64 * MB)
    assert (result.execution.ending, result.execution.exit_code) == (Ending.CRASHED, 3)
    assert result.submission == SAMPLE
    assert not [path for path in result.run_dir.rglob("*") if path.is_symlink()]
    json.dumps(result.execution.sandbox.to_json()).encode()


WITHOUT_RESULT = {
    "its home gone": f"{SUBMIT}; rm -rf /home/* 2>/dev/null",
    "a folder as its submission": "mkdir -p $SUBMISSION_DIR/submission.csv/a",
    "a submission of a terabyte": "truncate -s 900G $SUBMISSION_DIR/submission.csv",
    "a link to the data as its submission": "ln -s $DATA_DIR/sample_submission.csv $SUBMISSION_DIR/submission.csv",
    "a socket as its submission": python(
        "import socket; socket.socket(socket.AF_UNIX).bind('/home/submission/submission.csv')"
    ),
}


@pytest.mark.parametrize("wish", WITHOUT_RESULT)
def test_an_agent_that_leaves_no_result_wants(wish: str, module_runner: Runner) -> None:
    result = module_runner(f"{WITHOUT_RESULT[wish]}; exit 3", collect_bytes=64 * MB)
    assert (result.execution.ending, result.execution.exit_code, result.submission) == (Ending.CRASHED, 3, None)


def test_an_agent_wants_all_shared_memory(module_runner: Runner) -> None:
    result = module_runner(f"{SUBMIT}; head -c 5G /dev/zero > /dev/shm/x; exit 3")
    assert result.execution.ending in (Ending.CRASHED, Ending.OUT_OF_MEMORY) and result.submission == SAMPLE


def test_an_agent_wants_to_enter_the_first_process(module_runner: Runner) -> None:
    result = module_runner(
        python(
            """
            import ctypes
            libc = ctypes.CDLL(None)
            class Range(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
            here = ctypes.create_string_buffer(8)
            ranges = [ctypes.byref(Range(at, 8)) for at in (ctypes.addressof(here), 1 << 12)]
            for request in (16, 0x4206):
                if libc.ptrace(request, 1, 0, 0) == 0: print("traced")
            for call in (libc.process_vm_readv, libc.process_vm_writev):
                if call(1, ranges[0], 1, ranges[1], 1, 0) >= 0: print("read or wrote")
            for path in ("mem", "environ", "maps", "fd/0", "root/etc/passwd", "cwd/etc/passwd", "ns/net"):
                try: open(f"/proc/1/{path}", "rb").read(10); print("opened", path)
                except OSError: pass
            for path in ("1/oom_score_adj", "1/comm", "sysrq-trigger", "sys/kernel/core_pattern"):
                try:
                    with open(f"/proc/{path}", "w") as file: file.write("1")
                    print("wrote", path)
                except OSError: pass
            try:
                with open("/proc/self/oom_score_adj", "w") as file: file.write("-1000")
                print("exempt from the memory limit")
            except OSError: pass
            print("tried")
            """
        )
        + "; mount -t tmpfs x /mnt && echo mounted; unshare -r true && echo unshared; chroot / true && echo chrooted; "
        "nsenter -t 1 -m true && echo entered; true"
    )
    words = [line for line in result.log.splitlines() if line.split()[0] in WORDS]
    assert words == ["tried"]


WORDS = {"traced", "read", "opened", "wrote", "exempt", "tried", "mounted", "unshared", "chrooted", "entered"}


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """A low limit of descriptors, in proportion to that of many systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 350
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_want_all_descriptors_of_the_harness(attack: Runner, few_descriptors: int) -> None:
    held = threading.Event()

    def validate(path: Path) -> str:
        for number in range(20):  # fails if no descriptor is left
            (path.parent / f"{number}").touch()
        held.set()
        return "seen"

    result = attack(
        f"{SUBMIT}; "
        + python(
            """
            import socket
            held = []
            for port in (3128, 5000):
                for _ in range(500):
                    try:
                        held.append(socket.create_connection(("localhost", port), 1))
                        held[-1].sendall(b"GET /")
                    except OSError: pass
            held = [end for end in held if end.getpeername()[1] == 3128]
            import subprocess, os
            subprocess.run("curl -s -m 30 --retry 30 --retry-all-errors --retry-delay 1 "
                           "-F file=@$SUBMISSION_DIR/submission.csv $VALIDATION_URL/validate", shell=True)
            """
        )
        + "; exit 3",
        validate=validate,
    )
    assert (result.execution.exit_code, result.submission) == (3, SAMPLE)
    assert held.is_set()


def test_connections_leave_descriptors_if_the_process_may_have_more(few_descriptors: int) -> None:
    raise_descriptor_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(4096, hard)
