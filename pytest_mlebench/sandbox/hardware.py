"""What this machine has, for a reader who judges whether results compare."""

from __future__ import annotations

import os
import platform
import socket
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pytest_mlebench.sandbox.gpus import detect


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A machine: processors that this process may use, memory in bytes, and GPUs by model with their number."""

    host: str
    cpu: str
    cpus: int
    memory: int
    gpus: dict[str, int] = field(default_factory=dict)


def this_machine() -> Hardware:
    """The hardware found here; GPUs are those that ``nvidia-smi`` shows."""
    cpus, memory = machine_size()
    return Hardware(
        host=socket.gethostname(),
        cpu=_cpu_model(),
        cpus=cpus,
        memory=memory,
        gpus=dict(Counter(gpu.name for gpu in detect())),
    )


def machine_size() -> tuple[int, int]:
    """Processors that this process may use, and the machine's memory in bytes."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cpus, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()
