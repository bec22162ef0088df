"""Tests what an installation can do, in a container with the same restrictions as an agent's.

Apptainer runs with user namespaces or with a setuid program, with or without control groups, on old and new kernels. So
the probe measures what runs get, and reads no configuration files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.records.outcome import Limits

CHILDREN = 256
"""The probe limits processes to this number and tries to start as many threads, which count as processes. Apptainer has
some in the container, so the last threads fail if the limit is the container's own. All of them fail if the user has
many processes elsewhere. Processes would look like gigabytes to a batch system that adds up their shared memory."""
LIMITS = Limits(memory=1 << 30, cpus=0.5, processes=CHILDREN)
"""Limits of the probe's control group."""
GROUPS = "/mnt"
"""Folder in the container at which the probe finds the machine's control groups."""
DISK = 64 << 20
"""Bytes of the probe's disk, if disks are to be limited. Its file system may be slightly larger."""
PROGRAM = f"""
import json, os, resource, socket, sys, threading
sys.path.insert(0, os.path.dirname(sys.argv[2]))
import base64, init
if len(sys.argv) > 3:
    init.apply(base64.b64decode(sys.argv[3]))
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
try:
    open("/home/.probe", "w").close()
    os.remove("/home/.probe")
    writable = True
except OSError:
    writable = False
sizes = [os.statvfs(folder) for folder in ("/", "/home", "/tmp", "/var/tmp")]
disk = all(about.f_blocks * about.f_frsize <= 2 * int(sys.argv[1]) for about in sizes)
try:
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    pinned = False
except OSError:
    pinned = True
group = {{}}
for line in open("/proc/self/cgroup"):
    if line.startswith("0::"):
        for name in ("memory.max", "memory.swap.max", "cpu.max", "pids.max"):
            try:
                group[name] = open(f"{GROUPS}/{{line.strip()[4:]}}/{{name}}").read().strip()
            except OSError:
                pass
hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, ({CHILDREN}, hard))
children, never = 0, threading.Event()
threading.stack_size(1 << 16)
try:
    while children < {CHILDREN}:
        threading.Thread(target=never.wait, daemon=True).start()
        children += 1
except RuntimeError:
    pass
print(json.dumps(dict(
    first=os.getpid() == 1, interfaces=[name for _, name in socket.if_nameindex()], writable=writable, pinned=pinned,
    capabilities=status["CapEff"].strip("0\\n"), no_new_privileges=status["NoNewPrivs"].strip() == "1",
    filtered=status["Seccomp"].strip() == "2", children=children, disk=disk,
    group=group,
)), flush=True)
os._exit(0)
"""


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What an installation's containers can do."""

    writable: bool
    """The agent can write outside its own folders."""
    filtered: bool
    """The system call filter is active."""
    pinned: bool
    """Processes cannot leave the processors that they start on."""
    counted: bool
    """A limit on processes counts only those of the container."""
    disk: bool = False
    """The kernel enforces a limit on disk space, if one is set."""
    groups: bool = False
    """A control group of the container limits memory, processors and processes."""

    @property
    def unenforced(self) -> dict[str, str]:
        """The limits that nothing enforces, each with the reason."""
        missing = {}
        if not (self.pinned or self.groups):
            missing["processors"] = "neither control groups nor the system call filter is available"
        if not (self.counted or self.groups):
            missing["processes"] = "the kernel counts the processes of all of a user's containers together"
        return missing

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the limits for a run's record."""
        memory, cpus = "by polling", "by affinity, for whole processors"
        if self.groups:
            memory = cpus = "by a control group of the run"
        notes = [f"limit on memory enforced {memory}"]
        notes += [] if "processors" in self.unenforced else [f"limit on processors enforced {cpus}"]
        notes += [f"not enforced by this installation: {name} ({why})" for name, why in self.unenforced.items()]
        notes += [] if self.filtered else ["system calls are not filtered by this installation"]
        return tuple(notes)


def read(output: str, *, network: bool) -> Abilities:
    """Parse the output of the probe's program. ``network`` means that the container was to share the host's network.

    Raises SandboxError if the container would not confine an agent, whatever the options allow.
    """
    try:
        found = json.loads(output.splitlines()[-1])
        confined = {
            "a process namespace": found["first"],
            "a network namespace": network or found["interfaces"] == ["lo"],
            "no capabilities": not found["capabilities"],
            "no-new-privileges": found["no_new_privileges"],
        }
        if missing := [name for name, present in confined.items() if not present]:
            raise SandboxError(f"containers of this Apptainer cannot confine agents; they lack {', '.join(missing)}")
        return Abilities(
            writable=found["writable"],
            filtered=found["filtered"],
            pinned=found["pinned"],
            counted=0 < found["children"] < CHILDREN,
            disk=found["disk"],
            groups=_has_limits(found["group"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise SandboxError(f"the probe of Apptainer's containers gave no result: {output[-200:]!r}") from error


def _has_limits(group: dict[str, str]) -> bool:
    """Whether a control group has the probe's limits. A kernel without swap has no ``memory.swap.max``."""
    quota, _, period = group.get("cpu.max", "").partition(" ")
    return (
        group.get("memory.max") == str(LIMITS.memory)
        and group.get("memory.swap.max", "0") == "0"
        and group.get("pids.max") == str(LIMITS.processes)
        and quota.isdecimal()
        and int(quota) == int(period) * (LIMITS.cpus or 0)
    )
