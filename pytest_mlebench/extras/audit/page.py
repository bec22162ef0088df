"""Shows similar programs with their passages side by side, as text and as a page without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from markupsafe import escape

from pytest_mlebench._version import __version__
from pytest_mlebench.extras.audit.plagiarism import Pair, Pairs
from pytest_mlebench.io.units import first, one_line, plain, pluralize
from pytest_mlebench.reports.page import environment, style
from pytest_mlebench.results.findings import PlagiarismAccount

_MAX_PAIRS = 200
"""Maximum pairs on a page."""
_COLUMN = 58


def pairs_text(pairs: Iterable[Pair]) -> str:
    """Format pairs for a terminal: a title line each, then its passages in two columns."""
    return "\n\n".join("\n".join(_pair_lines(pair)) for pair in pairs)


def _pair_lines(pair: Pair) -> Iterator[str]:
    yield one_line(pair_title(pair))
    for passage in pair.passages:
        yield ""
        yield f"{_lines(passage.lines):<{_COLUMN}} | {_lines(passage.other_lines)}"
        left, right = (plain(text).expandtabs(4).split("\n") for text in (passage.text, passage.other_text))
        for line, other_line in zip_longest(left, right, fillvalue=""):
            yield f"{_cut(line):<{_COLUMN}} | {_cut(other_line)}".rstrip()


def pair_title(pair: Pair) -> str:
    """Describe a pair in one line: its verdict, the program, what it resembles, and the shares."""
    other = f"notebook {pair.other}" if pair.kind == "notebook" else f"{pair.other}/{pair.other_file}"
    return (
        f"{pair.verdict}: {pair.run_id}/{pair.file} ({pair.agent}) and {other}: {100 * pair.share:.0f} % of the "
        f"program, {100 * pair.other_share:.0f} % of the other"
    )


def account_text(account: PlagiarismAccount) -> str:
    """Describe a comparison: its parameters, and the numbers of runs and notebooks."""
    counts = account.notebooks.values()
    text = (
        f"plagiarism ({account.library} {account.version}, k-grams of {account.kgram}, window {account.window}, "
        f"threshold {100 * account.threshold:g} %, at least {account.least} characters of tokens): "
        f"{pluralize(len(account.runs), 'run')} compared across agents and with "
        f"{pluralize(sum(counted.compared for counted in counts), 'notebook')}"
    )
    for count, what in (
        (sum(counted.gone for counted in counts), "gone"),
        (sum(counted.missing for counted in counts), "not downloaded"),
        (sum(counted.unread for counted in counts), "could not be read"),
    ):
        text += f", {count} {what}" if count else ""
    if account.groups:
        text += f"; with the runs of {', '.join(account.groups)}"
    if account.without_code:
        text += f"\nno code to compare: {', '.join(first(account.without_code, 10))}"
    if account.not_compared:
        text += f"\ntoo large, too many or too costly to compare: {', '.join(first(account.not_compared, 10))}"
    return plain(text)


def page(name: str, found: Pairs, account: PlagiarismAccount) -> str:
    """Return the pairs of a run group as one self-contained HTML page without scripts."""
    pairs = []
    for pair in found.pairs[:_MAX_PAIRS]:
        passages = [  # escaped here, since the template would cut the code
            (_lines(part.lines), escape(plain(part.text)), _lines(part.other_lines), escape(plain(part.other_text)))
            for part in pair.passages
        ]
        pairs.append((pair, pair_title(pair), passages))
    template = environment().get_template("plagiarism.html")
    return template.render(
        name=name,
        version=__version__,
        style=style("plagiarism.css"),
        account=account_text(account).split("\n"),
        pairs=pairs,
        left_out=len(found.pairs) - len(pairs),
    )


def _lines(where: tuple[int, int]) -> str:
    return f"lines {where[0]} to {where[1]}"


def _cut(line: str) -> str:
    return line if len(line) <= _COLUMN else f"{line[: _COLUMN - 1]}…"
