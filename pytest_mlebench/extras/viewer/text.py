"""Text of agents as safe HTML, in linear time: terminal colours as classes, code in colours, long lines cut; Markdown
that neither loads nor leads anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from pytest_mlebench.io.units import plain

MAX_LINE = 4000
"""Characters that are shown of one line."""
_SGR = re.compile(r"\x1b\[([0-9;]{0,40})m")
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

ERRORS = (
    b"traceback (most recent call last)",
    b"error:",
    b"exception:",
    b"out of memory",
    b"killed",
    b"segmentation fault",
    b"command not found",
    b"no such file or directory",
    b"fatal",
)
"""Words of a line about a failure, in lower case. One pattern for all would take a hundred times as long."""


def is_error(content: bytes) -> bool:
    """Whether text tells of a failure."""
    content = content.lower()
    return any(words in content for words in ERRORS)


def coloured(line: str, further: int = 0) -> Markup:
    r"""A line of a log with the colours that its author meant, and nothing else that a terminal would obey.

    ``further`` is how much of it is not here.

    >>> coloured("\x1b[1;31mred\x1b[0m <b>")
    Markup('<span class="t-bold t-red">red</span> &lt;b&gt;')
    """
    left_out = max(0, len(line) - MAX_LINE) + max(0, further)
    line = line[:MAX_LINE].rstrip("\r\n")
    if "\r" in line:  # progress bars: the last state that they left
        line = line.rsplit("\r", 1)[-1]
    parts, classes = [], frozenset[str]()
    pieces = _SGR.split(line)
    for k, piece in enumerate(pieces):
        if k % 2:
            classes = _after(classes, piece)
        elif text := plain(piece):
            found = " ".join(sorted(classes))
            parts.append(f'<span class="{found}">{escape(text)}</span>' if found else str(escape(text)))
    if left_out:
        parts.append(f'<i class="cut">… {left_out:,} more in this line</i>')
    return Markup("".join(parts))


def _after(classes: frozenset[str], codes: str) -> frozenset[str]:
    found = set(classes)
    for code in codes.split(";"):
        number = int(code) if code.isascii() and code.isdecimal() and len(code) < 4 else 0
        if number == 0:
            found.clear()
        elif number in _STYLES:
            found.add(_STYLES[number])
        elif 30 <= number <= 37 or 90 <= number <= 97:
            found = found & {*_STYLES.values()} | {f"t-{_NAMES[number % 10]}"}
        elif number == 39:
            found &= {*_STYLES.values()}
        elif number in (38, 48):
            break  # what follows is a colour of a palette, not a code
    return frozenset(found)


_STYLES = {1: "t-bold", 2: "t-dim", 3: "t-italic", 4: "t-under"}

_KEYWORDS = frozenset(
    "False None True and as assert async await break class continue def del elif else except finally for from global "
    "if import in is lambda nonlocal not or pass raise return try while with yield match case self "
    "then fi do done esac function echo export local cd pip python bash set".split()
)
_CODE = re.compile(
    r"(?P<c>\#[^\n]*)"
    r"|(?P<s>\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*(?:\"\"\")?|'''(?:[^'\\]|\\.|'(?!''))*(?:''')?"
    r"|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?)"
    r"|(?P<n>\b\d[\w.]*)"
    r"|(?P<w>[^\W\d]\w*)",
    re.DOTALL,
)
CODE_SUFFIXES = (".py", ".sh", ".json", ".yaml", ".yml", ".toml", ".ipynb", ".r", ".jl", ".cfg", ".ini")


def code(text: str) -> Markup:
    """Code with classes for comments, strings, numbers and keywords, of whatever language it is.

    >>> code("x = 1  # <b>")
    Markup('x = <span class="k-n">1</span>  <span class="k-c"># &lt;b&gt;</span>')
    """
    text = plain(text)
    parts, done = [], 0
    for match in _CODE.finditer(text):
        kind = match.lastgroup
        if kind == "w":
            word = match.group()
            if word in _KEYWORDS:
                kind = "k"
            elif text[match.end() : match.end() + 1] == "(":
                kind = "f"
            else:
                continue
        parts.append(str(escape(text[done : match.start()])))
        parts.append(f'<span class="k-{kind}">{escape(match.group())}</span>')
        done = match.end()
    parts.append(str(escape(text[done:])))
    return Markup("".join(parts))


def looks_like_code(text: str) -> bool:
    """Whether a text has the marks of a program."""
    head = text[:2000]
    return bool(
        re.search(r"(?m)^\s{0,40}(?:import |from \w+ import |def |class |for |if |#!|\$ |print\()|[;{}]\s{0,9}$", head)
    )


@dataclass(frozen=True)
class Line:
    """A line of a log: the place of its first byte, its safe text, and whether it is about a failure."""

    place: int
    html: Markup
    is_error: bool


def lines_of(content: bytes, start: int) -> Iterator[Line]:
    """The lines of ``content``, which begins at byte ``start`` of its file."""
    place = 0
    for raw in re.split(rb"(?<=\n)", content):  # splitlines would take other characters for the end of a line
        if not raw:
            continue
        text = raw[: 4 * MAX_LINE].decode("utf-8", "replace")
        yield Line(start + place, coloured(text, len(raw) - 4 * MAX_LINE), is_error(raw[:MAX_LINE]))
        place += len(raw)


_DEEP = 40
"""Lists and quotations that are nested this deep are shown as they were written: the parser would leave text out."""


def markdown(text: str) -> Markup:
    """Headings, lists, tables, emphasis and code as HTML; links, images and HTML stay as they were written.

    >>> markdown("**fit** <b> [here](http://example.com)")
    Markup('<p><strong>fit</strong> &lt;b&gt; [here](http://example.com)</p>\\n')
    """
    text = plain(text)
    tokens = _MARKDOWN.parse(text)
    if any(token.level >= _DEEP - 2 for token in tokens):
        return Markup('<pre tabindex="0">{}</pre>').format(text)
    for token in tokens:
        if token.type.startswith("heading_"):  # the headings of a page are its own
            token.tag = "p"
            if token.nesting == 1:
                token.attrJoin("class", "heading")
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def _fence(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A block of code with what the writer called it."""
    token = tokens[index]
    name = Markup('<p class="block-title">{}</p>').format(token.info.strip()) if token.info.strip() else ""
    return f'{name}<pre tabindex="0">{code(token.content)}</pre>\n'


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _DEEP}).enable("table")
_MARKDOWN.disable(["link", "image", "autolink", "html_block", "html_inline", "reference", "code", "lheading"])
_MARKDOWN.add_render_rule("fence", _fence)
