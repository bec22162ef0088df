"""The instructions that an agent reads: ``instructions.txt``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_mlebench.io.paths import bundled
from pytest_mlebench.io.units import format_size, pluralize

if TYPE_CHECKING:
    from pytest_mlebench.records.account import Limits

INSTRUCTIONS = "instructions.txt"
VALIDATE = "validate_submission.sh"
SCRIPTS = (VALIDATE, "prompt.sh", "ask.sh", "options.sh")
"""What agents find beside the instructions."""


def render_instructions(*, data: str, submission: str, logs: str, code: str, validate: str, limits: Limits) -> str:
    """The instructions with the paths as the agent sees them."""
    template = (bundled("environment") / INSTRUCTIONS).read_text(encoding="utf-8")
    return template.format(
        data=data,
        submission=submission,
        logs=logs,
        code=code,
        validate=validate,
        time_limit=format_duration(limits.time_limit),
        hardware=_hardware(limits),
    )


def clock(limits: Limits) -> dict[str, str]:
    """The variables that say how long an agent that starts now has; ``DEADLINE`` in seconds since the epoch."""
    seconds = limits.time_limit
    return {"TIME_LIMIT_SECS": f"{seconds:g}", "DEADLINE": f"{time.time() + seconds:.0f}"}


def scripts() -> list[Path]:
    """The scripts that agents find in their home."""
    return [bundled("environment") / name for name in SCRIPTS]


def validate_script() -> Path:
    """The script with which an agent asks the submission checker."""
    return bundled("environment") / VALIDATE


def _hardware(limits: Limits) -> str:
    """What a run has, for example ``8 processors, 64 GiB of memory and 1 GPU``."""
    cpus = [] if limits.cpus is None else [f"{limits.cpus:g} processor{'' if limits.cpus == 1 else 's'}"]
    memory = [] if limits.memory is None else [f"{format_size(limits.memory)} of memory"]
    gpus = pluralize(limits.gpus, "GPU") if limits.gpus else "no GPU"
    return f"{', '.join([*cpus, *memory])} and {gpus}".removeprefix(" and ")


def format_duration(seconds: float) -> str:
    """A duration in words, for example ``24 hours`` or ``1 minute 30 seconds``."""
    left = round(seconds)
    parts = []
    for name, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}{'' if number == 1 else 's'}")
    return " ".join(parts) or "0 seconds"
