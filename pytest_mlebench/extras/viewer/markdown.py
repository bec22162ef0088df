"""Markdown that agents wrote as HTML that neither loads nor leads anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from pytest_mlebench.extras.viewer.text import code
from pytest_mlebench.io.units import plain

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


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _DEEP}).enable("table")
    made.disable(["link", "image", "autolink", "html_block", "html_inline", "reference", "code", "lheading"])
    made.add_render_rule("fence", _fence)
    return made


_MARKDOWN = _parser()
