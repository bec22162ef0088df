"""Attacks on the kernel: each test is named by what the attacker wants."""

from __future__ import annotations

import platform

import pytest

from tests.sandbox.scripted import Runner, python

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the system call numbers are those of x86-64"),
]

FORBIDDEN = {
    "add_key": 248,
    "bpf": 321,
    "chroot": 161,
    "clock_settime": 227,
    "clone3": 435,
    "delete_module": 176,
    "fanotify_init": 300,
    "finit_module": 313,
    "fsmount": 432,
    "fsopen": 430,
    "init_module": 175,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "iopl": 172,
    "kcmp": 312,
    "kexec_load": 246,
    "keyctl": 250,
    "mount": 165,
    "mount_setattr": 442,
    "move_mount": 429,
    "move_pages": 279,
    "open_by_handle_at": 304,
    "open_tree": 428,
    "perf_event_open": 298,
    "pidfd_getfd": 438,
    "pivot_root": 155,
    "quotactl": 179,
    "reboot": 169,
    "request_key": 249,
    "setns": 308,
    "settimeofday": 164,
    "swapon": 167,
    "syslog": 103,
    "umount2": 166,
    "unshare": 272,
    "userfaultfd": 323,
    "vhangup": 153,
}
CALL = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for name, number in %r.items():
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    print(name, result, ctypes.get_errno())
"""
FAMILIES = {"packet": 17, "raw netlink": 16, "alg": 38, "vsock": 40, "bluetooth": 31, "can": 29, "tipc": 30, "xdp": 44}
SOCKETS = """
import socket
for name, family in %r.items():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind, 9 if family == 16 else 0)
            print("opened", name)
        except OSError:
            pass
    try:
        socket.socketpair(family, socket.SOCK_STREAM)
        print("paired", name)
    except OSError:
        pass
for kind in (socket.SOCK_RAW,):
    try:
        socket.socket(socket.AF_INET, kind, 1)
        print("opened raw")
    except OSError:
        pass
print("tried")
"""


@pytest.fixture(scope="module")
def answers(module_runner: Runner) -> dict[str, tuple[int, int]]:
    """The result of each forbidden call; one container makes all of them."""
    log = module_runner(python(CALL % FORBIDDEN)).log
    rows = (line.split() for line in log.splitlines())
    return {name: (int(result), int(number)) for name, result, number in rows}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_an_agent_wants_the_kernel_to(name: str, answers: dict[str, tuple[int, int]]) -> None:
    result, number = answers[name]
    assert result == -1
    assert number in (1, 38)  # EPERM or ENOSYS, before the kernel checks an argument


def test_an_agent_wants_a_socket_that_bypasses_its_network(module_runner: Runner) -> None:
    assert module_runner(python(SOCKETS % FAMILIES)).log.split() == ["tried"]


def test_an_agent_wants_32_bit_system_calls(module_runner: Runner) -> None:
    # int 0x80 with 32-bit Linux's number of getpid, from a separate page
    code = "import ctypes, mmap\n"
    code += "page = mmap.mmap(-1, 4096, prot=7)\n"
    code += "page.write(bytes.fromhex('b814000000cd80c3'))\n"
    code += "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
    code += "print('pid', ctypes.CFUNCTYPE(ctypes.c_int)(address)())\n"
    result = module_runner(f"{python(code)}; echo $?")
    assert "pid" not in result.log or int(result.log.split()[1]) < 0


def test_an_agent_wants_new_namespaces_from_clone(module_runner: Runner) -> None:
    code = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    code += "for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):\n"
    code += "    pid = libc.syscall(56, flag | 17, 0, 0, 0, 0)\n"
    code += "    print('made' if pid >= 0 else 'refused', flush=True)\n"
    result = module_runner(python(code))
    assert result.log.split() == ["refused"] * 7


def test_honest_programs_are_not_affected(module_runner: Runner) -> None:
    code = (
        "import asyncio, concurrent.futures, multiprocessing, socket, subprocess, tempfile, threading\n"
        "import joblib, numpy, pandas, sklearn.linear_model\n"
        "with concurrent.futures.ProcessPoolExecutor(2) as pool: print(sum(pool.map(abs, [-1, -2])))\n"
        "print(subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout.strip())\n"
        "print(asyncio.run(asyncio.sleep(0, 'async')))\n"
        "print(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in (-3, -4)))\n"
        "print(len(socket.if_nameindex()), socket.getaddrinfo('localhost', 80)[0][0] > 0)\n"
        "multiprocessing.set_start_method('spawn', force=True)\n"
        "queue = multiprocessing.Queue(); queue.put(5); print(queue.get())\n"
    )
    result = module_runner(python(code))
    assert result.log.split("\n")[:-1] == ["3", "sub", "async", "[3, 4]", "1 True", "5"]
