"""Parsers of option values. Each function parses a string, or raises ValueError with the problem."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pytest_mlebench.errors import SandboxError, quoted
from pytest_mlebench.io.extensions import extensions, is_deleted, not_installed
from pytest_mlebench.io.units import parse_duration

_MAX_DIGITS = 19
"""Of a whole number: more than bytes, tokens or calls ever need."""


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def version(text: str) -> str:
    return one_of("1", "2")(text.removeprefix("v"))


def sandbox(text: str) -> str:
    return _added("mlebench.sandboxes", "auto", "docker", "podman", "local")(text)


def _added(group: str, *own: str) -> Callable[[str], str]:
    """Parse a word: one of these, or the name of an entry point of this group."""

    def parse(text: str) -> str:
        if is_deleted(group, text):
            raise ValueError(not_installed(text))
        return one_of(*own, *sorted(extensions(group)))(text)

    return parse


def data(text: str) -> str:
    from pytest_mlebench.data.preparing import parse_choice

    return parse_choice(text)


def data_source(text: str) -> str:
    from pytest_mlebench.data.preparing import check

    return check(text)


def heavy(text: str) -> str:
    if text not in ("auto", "cpu", "cuda"):
        raise ValueError(f"{text!r} is not one of auto, cpu, cuda (before another argument, write --heavy=auto)")
    return text


def cluster(text: str) -> str | None:
    return None if text == "none" else _added("mlebench.engines", "none")(text)


def failures(text: str) -> frozenset[str]:
    from pytest_mlebench.records.outcome import FAILURES

    names = [word.replace(" ", "_").replace("-", "_") for word in words(text)]
    chosen = set(map(one_of(*FAILURES, "all"), names))
    return frozenset(map(str, FAILURES)) if "all" in chosen else frozenset(chosen)


def variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"{text!r:.100} is not the name of an environment variable")
    return text


def host(text: str) -> str:
    from pytest_mlebench.sandbox.network.policy import Destination

    try:
        Destination.parse(text)
    except SandboxError as error:
        raise ValueError(str(error)) from error
    return text


def agent_id(text: str) -> str:
    if not re.fullmatch(r"[\w./-]+", text):
        raise ValueError(f"{text!r:.100} is not the id of an agent; name each agent, wildcards are not supported")
    return text


def words(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise ValueError(f"{text!r} names nothing; write names with commas between them")
    return found


def group(text: str) -> str:
    if text.startswith(".") and os.sep not in text:
        raise ValueError(f"{text!r} must not start with a dot; write ./{text} for a path")
    return text


def natural_number(text: str, least: int = 0) -> int:
    if not text.isdecimal() or (len(text) <= _MAX_DIGITS and int(text) < least):
        raise ValueError(f"{quoted(text)} is not a whole number of at least {least}")
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"{quoted(text)} is too large")
    return int(text)


def positive_integer(text: str) -> int:
    return natural_number(text, 1)


def whole_gpus(text: str) -> int:
    if not text.isdecimal() and re.fullmatch(r"\d*\.\d+", text):
        raise ValueError(
            f"{text!r} is not a whole number: runs that share a GPU also share its memory and time. "
            "Split it into MIG instances (`nvidia-smi mig`), which count as GPUs here"
        )
    return natural_number(text)


def positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{text!r} is not a positive number")
    return number


def interval(text: str) -> float:
    return 0.0 if text == "0" else parse_duration(text)


def file(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    return path


def folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    if not os.access(path, os.R_OK | os.X_OK):  # globbing would silently find nothing
        raise ValueError(f"{path} cannot be read: Permission denied")
    return path


def place(path: Path) -> Path:
    """Parse a folder that exists or can be created."""
    with suppress(PermissionError):  # reported with advice when the folder is used
        nearest = next(folder for folder in (path, *path.parents) if folder.exists())
        if not nearest.is_dir():
            raise ValueError(f"{nearest} is not a folder")
    return path
