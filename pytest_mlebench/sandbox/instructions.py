"""The instructions that an agent reads: ``instructions.txt``."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench._paths import bundled

INSTRUCTIONS = "instructions.txt"
VALIDATE = "validate_submission.sh"


def render_instructions(*, data: str, submission: str, logs: str, code: str, validate: str, time_limit: float) -> str:
    """The instructions with the paths as the agent sees them; ``time_limit`` in seconds."""
    template = (bundled("environment") / INSTRUCTIONS).read_text(encoding="utf-8")
    return template.format(
        data=data,
        submission=submission,
        logs=logs,
        code=code,
        validate=validate,
        time_limit=format_duration(time_limit),
    )


def validate_script() -> Path:
    """The script with which an agent asks the submission checker."""
    return bundled("environment") / VALIDATE


def format_duration(seconds: float) -> str:
    """A duration in words, for example ``24 hours`` or ``1 minute 30 seconds``."""
    left = round(seconds)
    parts = []
    for name, size in (("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}{'' if number == 1 else 's'}")
    return " ".join(parts) or "0 seconds"
