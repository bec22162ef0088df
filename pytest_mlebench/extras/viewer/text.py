"""Renders text of agents as safe HTML in linear time: terminal colours as classes, code with colours, long lines cut,
and Markdown that cannot load or link to anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, table
from markdown_it.token import Token
from markupsafe import Markup, escape

from pytest_mlebench.io.units import plain

MAX_LINE = 4000
"""Maximum characters that are shown of one line."""
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
"""Lower-case words in lines about a failure. One pattern for all of them would take a hundred times as long."""


def is_error(content: bytes) -> bool:
    """Return whether text is about a failure."""
    content = content.lower()
    return any(words in content for words in ERRORS)


def coloured(line: str, further: int = 0) -> Markup:
    r"""Return a line of a log as HTML, with its colours but without other terminal control codes.

    ``further`` is the number of characters of the line that were not read.

    >>> coloured("\x1b[1;31mred\x1b[0m <b>")
    Markup('<span class="t-bold t-red">red</span> &lt;b&gt;')
    """
    left_out = max(0, len(line) - MAX_LINE) + max(0, further)
    line = line[:MAX_LINE].rstrip("\r\n")
    if "\r" in line:  # a progress bar: keep its last state
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
            break  # the rest is a palette colour, not a code
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
    """Return code of any language with classes for comments, strings, numbers and keywords.

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
    """Return whether a text looks like a program."""
    head = text[:2000]
    return bool(
        re.search(r"(?m)^\s{0,40}(?:import |from \w+ import |def |class |for |if |#!|\$ |print\()|[;{}]\s{0,9}$", head)
    )


@dataclass(frozen=True)
class Line:
    """A line of a log: the position of its first byte, its safe HTML, and whether it is about a failure."""

    place: int
    html: Markup
    is_error: bool


def lines_of(content: bytes, start: int) -> Iterator[Line]:
    """Yield the lines of ``content``, which begins at byte ``start`` of its file."""
    place = 0
    for raw in re.split(rb"(?<=\n)", content):  # splitlines would also split at other characters
        if not raw:
            continue
        text = raw[: 4 * MAX_LINE].decode("utf-8", "replace")
        yield Line(start + place, coloured(text, len(raw) - 4 * MAX_LINE), is_error(raw[:MAX_LINE]))
        place += len(raw)


_DEEP = 40
"""Lists and quotations that are nested this deep are shown as source, because the parser would omit text."""


def markdown(text: str) -> Markup:
    """Render headings, lists, tables, emphasis and code as HTML. Links, images and HTML stay as plain text.

    >>> markdown("**fit** <b> [here](http://example.com)")
    Markup('<p><strong>fit</strong> &lt;b&gt; [here](http://example.com)</p>\\n')
    """
    text = plain(text)
    tokens = _MARKDOWN.parse(text)
    if any(token.level >= _DEEP - 2 for token in tokens):
        return Markup('<pre tabindex="0">{}</pre>').format(text)
    for token in tokens:
        if token.type.startswith("heading_"):  # only the page itself has headings
            token.tag = "p"
            if token.nesting == 1:
                token.attrJoin("class", "heading")
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def _fence(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a block of code with its title."""
    token = tokens[index]
    name = Markup('<p class="block-title">{}</p>').format(token.info.strip()) if token.info.strip() else ""
    return f'{name}<pre tabindex="0">{code(token.content)}</pre>\n'


_BAR = re.compile(r"(?<!\\)\|")


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a table. If a row has more cells than the head, show the source, because the parser would omit them."""
    before = len(state.tokens)
    is_table = table(state, start, end, silent)
    if is_table and not silent:
        columns = sum(token.type == "th_open" for token in state.tokens[before:])
        lines = [state.src[state.bMarks[k] + state.tShift[k] : state.eMarks[k]] for k in range(start, state.line)]
        if any(_has_more_cells(line, columns) for line in lines):
            del state.tokens[before:]
            state.push("fence", "code", 0).content = "\n".join(lines)
    return is_table


def _has_more_cells(line: str, columns: int) -> bool:
    cells = _BAR.split(line.strip(" \t"))
    further = cells[columns + (cells[0] == "") :]
    return any(cell.strip() for cell in further)


_MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _DEEP}).enable("table")
_MARKDOWN.disable(["link", "image", "autolink", "html_block", "html_inline", "reference", "code", "lheading"])
_MARKDOWN.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
_MARKDOWN.add_render_rule("fence", _fence)
