"""``python -m tools.docs.inline`` copies code from files into documentation pages; a test checks that it is current.

A comment before a code block names the file. The code is in the page's source, so that it can be read there too."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"(?P<start><!-- file: (?P<file>\S+) -->\n+(?P<indent> *)```\w*\n).*?(?P<end>^(?P=indent)```$)",
    re.MULTILINE | re.DOTALL,
)


def inlined(page: str) -> str:
    """The page with the content of each named file in the block below its name."""

    def block(match: re.Match[str]) -> str:
        lines = (ROOT / match["file"]).read_text(encoding="utf-8").rstrip("\n").split("\n")
        shown = "".join(f"{match['indent']}{line}".rstrip() + "\n" for line in lines)
        return match["start"] + shown + match["end"]

    return _BLOCK.sub(block, page)


def main() -> None:
    for path in sorted((ROOT / "docs").rglob("*.md")):
        path.write_text(inlined(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
