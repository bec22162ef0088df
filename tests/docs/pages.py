"""The documentation pages, and the commands that they contain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT_FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(
    r"(\$ )?(?:\w+=\S+ )*(?P<name>pytest|mlebench|python3?|pip|mkdocs|pre-commit|\.ci/\w+|\.venv/bin/\w+|export|"
    r"docker|podman|kubectl|sbatch|squeue|scancel|sudo|apt-get|curl|ssh|source|cd|cp|eval|inspect|rsync|jupyter|man|"
    r"nvidia-ctk|ray|git|cat|unzip|sha256sum|ssh-keygen|\.)(?= |$)"
)


@dataclass(frozen=True)
class Fence:
    """A code block of a page: its language, and the text between the fences."""

    page: str
    kind: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command line that a reader would type."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def pages() -> dict[str, str]:
    """All handwritten texts, by their path in the project."""
    files = [*(ROOT / name for name in PROJECT_FILES), *sorted((ROOT / "docs").rglob("*.md"))]
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


def fences() -> Iterator[Fence]:
    for page, text in pages().items():
        for found in _FENCE.finditer(text):
            indent = len(found["indent"])
            body = "\n".join(line[indent:] for line in found["body"].splitlines())
            yield Fence(page, found["kind"].split(" ")[0].strip("{}."), body)


def commands() -> list[Command]:
    """The commands of all pages, without duplicates on a page."""
    return list(dict.fromkeys(Command(fence.page, text) for fence in fences() for text in _commands(fence)))


def _commands(fence: Fence) -> Iterator[str]:
    """The lines that are commands. A ``bash`` block contains only commands, or else a file with separate tests."""
    if fence.text.startswith("#!"):
        return
    if fence.kind not in ("", "bash", "console", "sh", "shell"):
        return
    lines = re.sub(r"\\\n\s*", "", fence.text).splitlines()
    if fence.kind in ("bash", "sh") and not all(_PROGRAM.match(line) for line in lines if line and line[0] != "#"):
        return
    is_transcript = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if _PROGRAM.match(line) and line.startswith("$ ") == is_transcript:
            yield re.sub(r"\s+# .*", "", line.removeprefix("$ ")).strip()
