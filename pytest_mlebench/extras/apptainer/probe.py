"""What an installation can do. It is tried once, in a container with the same restrictions as an agent's.

Apptainer runs with user namespaces or with a setuid program, with or without control groups, on kernels of all ages.
So the result is what runs actually get; configuration files are not consulted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.records.outcome import Limits

CHILDREN = 256
"""The probe limits processes to this number and tries to start as many threads, which count as such. Apptainer has some
in the container, so the last ones fail where such a limit is the container's own; all fail where the user has many
processes elsewhere. Processes would look like gigabytes of memory to a batch system that adds up what they share."""
LIMITS = Limits(memory=1 << 30, cpus=0.5, processes=CHILDREN)
"""Those of the probe's control group."""
GROUPS = "/mnt"
"""Where the probe finds the machine's control groups."""
DISK = 64 << 20
"""Where disks are to be limited, the probe gets one of so many bytes; its file system may be a little larger."""
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
    """What the containers of an installation have."""

    writable: bool
    """The agent may write outside of the folders that are its own."""
    filtered: bool
    """Our filter of system calls applies."""
    pinned: bool
    """Processes cannot leave the processors that they were given."""
    counted: bool
    """A limit on processes is the container's own."""
    disk: bool = False
    """The kernel limits what they write, where they are to have a limit."""
    groups: bool = False
    """The kernel limits memory, processors and processes, by a control group of the container."""

    @property
    def unenforced(self) -> dict[str, str]:
        """The limits that nothing keeps, and why."""
        missing = {}
        if not (self.pinned or self.groups):
            missing["processors"] = "there are neither control groups nor the filter that keeps processes on theirs"
        if not (self.counted or self.groups):
            missing["processes"] = "the kernel counts those of all containers of a user together"
        return missing

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run's record says of them."""
        memory, cpus = "by looking", "whole ones, by affinity"
        if self.groups:
            memory = cpus = "by a control group of the run"
        notes = [f"limit on memory kept {memory}"]
        notes += [] if "processors" in self.unenforced else [f"limit on processors kept {cpus}"]
        notes += [f"not enforced by this installation: {name} ({why})" for name, why in self.unenforced.items()]
        notes += [] if self.filtered else ["system calls are not filtered by this installation"]
        return tuple(notes)


def read(output: str, *, network: bool) -> Abilities:
    """What the probe's program printed. ``network``: the container shares the host's network, as was asked for.

    Raises SandboxError for a container that would not confine an agent, whatever is allowed.
    """
    try:
        found = json.loads(output.splitlines()[-1])
        confined = {
            "a process namespace": found["first"],
            "a network namespace": network or found["interfaces"] == ["lo"],
            "no capabilities": not found["capabilities"],
            "no-new-privileges": found["no_new_privileges"],
        }
        if missing := [name for name, has in confined.items() if not has]:
            raise SandboxError(f"the containers of this Apptainer lack what confines agents: {', '.join(missing)}")
        return Abilities(
            writable=found["writable"],
            filtered=found["filtered"],
            pinned=found["pinned"],
            counted=0 < found["children"] < CHILDREN,
            disk=found["disk"],
            groups=_limits(found["group"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise SandboxError(f"the probe of Apptainer's containers printed {output[-200:]!r}, not its result") from error


def _limits(group: dict[str, str]) -> bool:
    """Whether a control group has the probe's limits; without swap, a kernel has no file for it."""
    quota, _, period = group.get("cpu.max", "").partition(" ")
    return (
        group.get("memory.max") == str(LIMITS.memory)
        and group.get("memory.swap.max", "0") == "0"
        and group.get("pids.max") == str(LIMITS.processes)
        and quota.isdecimal()
        and int(quota) == int(period) * (LIMITS.cpus or 0)
    )
