"""Attacks through kernel interfaces: files, sockets and calls. One container tries all of them."""

from __future__ import annotations

import pytest

from tests.sandbox.scripted import Runner

pytestmark = pytest.mark.docker

WRITTEN = (
    "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/fs/file-max", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/ns_last_pid", "/proc/sys/fs/suid_dumpable",
    "/proc/irq/default_smp_affinity", "/proc/1/oom_score_adj", "/proc/1/comm", "/proc/self/uid_map",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/class/net/lo/mtu",
    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/dev/mem", "/dev/kmsg", "/dev/fuse",
    "/dev/kvm", "/dev/loop-control", "/dev/net/tun", "/dev/vhost-vsock", "/dev/vda", "/dev/sda", "/etc/hosts",
    "/etc/resolv.conf", "/etc/ld.so.preload", "/usr/local/bin/python3", "/opt/mlebench/init.py",
)  # fmt: skip
READ = (
    "/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/slabinfo", "/proc/kmsg", "/proc/pagetypeinfo",
    "/proc/vmallocinfo", "/proc/timer_list", "/proc/1/maps", "/proc/1/environ", "/proc/1/auxv", "/proc/1/io",
    "/proc/1/root/etc/passwd", "/proc/1/stack", "/etc/shadow", "/root/.bashrc",
)  # fmt: skip
LISTED = (
    "/proc/1/fd", "/proc/1/cwd", "/proc/1/map_files", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf",
    "/sys/firmware", "/var/lib/docker", "/run/docker", "/root",
)  # fmt: skip
CALLS = {
    "the number of root": "os.setuid(0)",
    "the group of root": "os.setgid(0)",
    "no groups": "os.setgroups([])",
    "priority over others": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
    "real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "disk I/O priority": "call(251, 1, 0, 1 << 13)",
    "more descriptors than its limit": "resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 22, 1 << 22))",
    "more processes than its limit": "resource.setrlimit(resource.RLIMIT_NPROC, (1 << 22, 1 << 22))",
    "protection from the OOM killer": "open('/proc/self/oom_score_adj', 'wb', 0).write(b'-999')",
    "to trace the first process": "call(101, 16, 1, 0, 0)",
    "to read the first process": "call(310, 1, room(), 1, room(), 1, 0)",
    "another host name": "call(170, b'x', 1)",
    "another domain": "call(171, b'x', 1)",
    "accounts of processes": "call(163, b'/home/x')",
    "another time": "call(159, ctypes.byref(ctypes.create_string_buffer(b'\\x01' * 256)))",
    "to set a clock": "call(305, 0, ctypes.byref(ctypes.create_string_buffer(b'\\x01' * 256)))",
    "ports of the machine": "call(173, 0x70, 4, 1)",
    "no swap": "call(168, b'/dev/vda')",
    "a character device": "os.mknod('/home/d', stat.S_IFCHR | 0o666, os.makedev(1, 1))",
    "a block device": "os.mknod('/home/b', stat.S_IFBLK | 0o666, os.makedev(254, 0))",
    "a file of root": "(open('/home/f', 'w').close(), os.chown('/home/f', 0, 0))",
    "rights in a file": "(open('/home/g', 'w').close(), os.setxattr('/home/g', 'security.capability', bytes(20)))",
    "a trusted attribute": "(open('/home/t', 'w').close(), os.setxattr('/home/t', 'trusted.overlay.opaque', b'y'))",
    "a hard link to a file of root": "os.link('/etc/shadow', '/home/s')",
    "the data in its own folder": "os.link('/home/data/sample_submission.csv', '/home/l')",
    "a larger buffer than others": "socket.socket().setsockopt(socket.SOL_SOCKET, 33, 1 << 26)",
    "marked packets": "socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1)",
    "packets of other addresses": "socket.socket().setsockopt(socket.SOL_IP, 19, 1)",
    "a route": "route()",
    "a link": "route(16)",
    "a pipe of sixteen megabytes": "fcntl.fcntl(os.pipe()[1], 1031, 1 << 24)",
    "to be in another control group": "open('/proc/self/cgroup', 'wb', 0).write(b'/')",
    "memory of another process": "open('/proc/1/mem', 'rb').read(1)",
    "the kernel's addresses": "real(any(line.split()[0].strip('0') for line in open('/proc/kallsyms')))",
}
PROGRAM = """
import ctypes, fcntl, os, resource, socket, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), 'refused')
def room():
    return ctypes.create_string_buffer(64)
def real(it):
    if not it:
        raise OSError('nothing')
def route(kind=24):
    # RTM_NEWROUTE or RTM_NEWLINK with an empty body, to be acknowledged
    body = bytes(16) + bytes(16)
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    channel.send(struct.pack('=IHHII', 16 + len(body), kind, 0x405, 1, 0) + body)
    length, kind, _, _, _, error = struct.unpack_from('=IHHIIi', channel.recv(4096))
    if kind == 2 and error:
        raise OSError(-error, 'refused')
def write(path):
    with open(path, 'r+b', buffering=0) as file:
        file.write(b'0' if '/proc' in path or '/sys' in path else b'')
def read(path):
    with open(path, 'rb') as file:
        real(file.read(16))
tried = [(path, lambda path=path: write(path)) for path in WRITTEN]
tried += [(path, lambda path=path: read(path)) for path in READ]
tried += [(path, lambda path=path: real(os.listdir(path))) for path in LISTED]
tried += [(name, lambda code=code: eval(code)) for name, code in CALLS.items()]
for name, attempt in tried:
    try:
        attempt()
    except (OSError, ValueError):
        continue
    except Exception as error:
        print('ERROR', name, repr(error), flush=True)
    else:
        print('GOT', name, flush=True)
print('tried', len(tried))
"""


@pytest.fixture(scope="module")
def got(module_runner: Runner) -> str:
    names = f"WRITTEN, READ, LISTED, CALLS = {WRITTEN!r}, {READ!r}, {LISTED!r}, {CALLS!r}"
    return module_runner(f"cat > x.py <<'EOF'\n{names}\n{PROGRAM}\nEOF\nexec python3 x.py").log


@pytest.mark.parametrize("what", [*WRITTEN, *READ, *LISTED, *CALLS])
def test_an_agent_wants_of_the_kernel(what: str, got: str) -> None:
    assert f"tried {len(WRITTEN) + len(READ) + len(LISTED) + len(CALLS)}\n" in got
    assert not [line for line in got.splitlines() if line.partition(" ")[2].startswith(what)]
