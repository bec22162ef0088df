"""The system calls that agents in containers may make."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

_ALLOWED = {
    "files": """
        access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
        fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fdatasync flock fstat fstatfs fsync ftruncate
        futimesat getcwd getdents getdents64 ioctl lchown link linkat lseek lstat mkdir mkdirat mknod mknodat newfstatat
        open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
        rename renameat renameat2 rmdir sendfile splice stat statfs statx symlink symlinkat sync sync_file_range syncfs
        tee truncate umask unlink unlinkat utime utimensat utimes vmsplice write writev
    """,
    "extended attributes": """
        fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr lsetxattr
        removexattr setxattr
    """,
    "watching": """
        epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 inotify_add_watch
        inotify_init inotify_init1 inotify_rm_watch poll ppoll pselect6 select signalfd signalfd4
    """,
    "memory": """
        brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap msync munlock munlockall
        munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
    """,
    "processes": """
        execve execveat exit exit_group fork vfork wait4 waitid getpid getppid gettid getpgid getpgrp setpgid getsid
        setsid prctl arch_prctl set_tid_address set_robust_list get_robust_list set_thread_area get_thread_area rseq
        getrlimit setrlimit prlimit64 getrusage times getcpu uname sysinfo capget capset restart_syscall seccomp
        landlock_add_rule landlock_create_ruleset landlock_restrict_self pidfd_open pidfd_send_signal process_mrelease
        ptrace process_vm_readv process_vm_writev modify_ldt riscv_flush_icache riscv_hwprobe map_shadow_stack
    """,
    "users": """
        getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid
        setgroups setfsuid setfsgid
    """,
    "scheduling": """
        sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam sched_getscheduler
        sched_setscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_yield getpriority
        setpriority ioprio_get ioprio_set
    """,
    "signals": """
        kill tkill tgkill pause alarm rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
        rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack
    """,
    "time": """
        clock_getres clock_gettime clock_nanosleep gettimeofday time nanosleep getitimer setitimer timer_create
        timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
    """,
    "locks, pipes, shared memory and queues": """
        futex futex_waitv futex_wait futex_wake futex_requeue pipe pipe2 semctl semget semop semtimedop shmat shmctl
        shmdt shmget msgctl msgget msgrcv msgsnd
    """,
    "connections": """
        accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
        sendto setsockopt shutdown
    """,
    "randomness": "getrandom",
}
_NO_SUCH_CALL = ["clone3", "io_uring_enter", "io_uring_register", "io_uring_setup"]
"""Programs fall back to older calls if these seem unsupported. A filter cannot see the arguments of ``clone3``."""
_ENOSYS = 38
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0
_NEW_NAMESPACES = 0x7E020000
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""``PER_LINUX`` and ``PER_LINUX32``, each with and without ``UNAME26``, and the query for the current value."""
_FCNTL_COMMANDS = (*range(17), 36, 37, 38, 1025, *range(1027, 1039))
"""All except F_NOTIFY and leases (F_SETLEASE), which let a file's owner block processes that open the file."""
_ARCHITECTURES = ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64", "SCMP_ARCH_RISCV64", "SCMP_ARCH_PPC64LE"]


def profile(*, without: Collection[str] = ()) -> str:
    """Return the profile as JSON, for ``--security-opt seccomp=…``. ``without`` removes calls from the allow-list."""
    names = sorted({name for group in _ALLOWED.values() for name in group.split()} - set(without))
    allow: list[dict[str, Any]] = [{"names": names}]
    allow += [{"names": ["socket"], "args": [_equals(0, family)]} for family in (_UNIX, _INET, _INET6)]
    allow += [
        {"names": ["socket"], "args": [_equals(0, _NETLINK), _equals(2, _ROUTE)]},
        {"names": ["socketpair"], "args": [_equals(0, _UNIX)]},
        {"names": ["clone"], "args": [{"index": 0, "value": _NEW_NAMESPACES, "op": "SCMP_CMP_MASKED_EQ"}]},
    ]
    allow += [{"names": ["fcntl"], "args": [_equals_in_32_bits(1, command)]} for command in _FCNTL_COMMANDS]
    allow += [{"names": ["personality"], "args": [_equals(0, value)]} for value in _PERSONALITIES]
    rules = [{"action": "SCMP_ACT_ALLOW", **rule} for rule in allow]
    rules.append({"action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS, "names": _NO_SUCH_CALL})
    architectures = [{"architecture": name, "subArchitectures": []} for name in _ARCHITECTURES]
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "archMap": architectures, "syscalls": rules})


def _equals(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _equals_in_32_bits(index: int, value: int) -> dict[str, Any]:
    """Compare only 32 bits: the kernel ignores the upper half of an int argument, but a filter does not."""
    return {"index": index, "value": 0xFFFFFFFF, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}
