"""What an agent sees of an episode, from the answers of its sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_mlebench.io.extensions import renamed
from pytest_mlebench.io.values import as_count

_SHOWN_FILES, _SHOWN_LINES, _SHOWN_BYTES = 100, 5, 2000
_MAX_ERROR = 300


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What an agent sees first. ``files`` has the names of the files in the data folder and their sizes in bytes, and
    ``heads`` has the first lines of text files."""

    instructions: str
    description: str
    files: Mapping[str, int]
    heads: Mapping[str, str]
    time_limit: float
    step_timeout: float


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """The result of a command. ``submission`` is ``absent``, ``valid``, or ``malformed: …`` with the checker's message.

    ``terminated``: the sandbox has ended; ``truncated``: the episode's time is over. ``info`` has the measurements.
    """

    output: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    submission: str = "absent"
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def observe(public: Path, **fields: Any) -> Observation:
    """Return an observation of a data folder, with further fields."""
    files = {str(path.relative_to(public)): path.stat().st_size for path in public.rglob("*") if path.is_file()}
    names = sorted(files)[:_SHOWN_FILES]
    return Observation(
        description=(public / "description.md").read_text(encoding="utf-8"),
        files=files,
        heads={name: text for name in names if (text := _head(public / name))},
        **fields,
    )


def _head(path: Path) -> str:
    """The first lines of a text file; empty for any other file."""
    with path.open("rb") as file:
        data = file.read(_SHOWN_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 4:
            return ""
        text = data[: error.start].decode("utf-8")
    return "" if "\0" in text else "\n".join(text.splitlines()[:_SHOWN_LINES])


def printed(answer: Mapping[str, Any], killed: bool, limit: float, keep: int) -> str:
    """The beginning and the end of a command's output, together of at most ``keep`` characters."""
    head, tail = text_of(answer.get("head"))[: keep // 2], text_of(answer.get("tail"))[-(keep - keep // 2) :]
    omitted = as_count(answer.get("omitted"))
    between = f"\n[… {omitted:,} bytes omitted …]\n" if omitted else ""
    after = f"\n[killed after {limit:g} s]" if killed else ""
    error = f"\n[{error_of(answer)}]" if "error" in answer else ""
    return f"{head}{between}{tail}{after}{error}"


def text_of(value: object) -> str:
    """The value if it is text, without lone surrogates, which could not be printed or stored."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def error_of(answer: Mapping[str, Any]) -> str:
    return text_of(answer.get("error"))[:_MAX_ERROR]


def integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


renamed(__name__, "0.4", {"Step": "CommandResult"})
