"""Tables for a terminal and for Markdown: runs, agents side by side, and the precision of results."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from pytest_mlebench.io.units import format_dollars, format_score, format_seconds, listed, one_line
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import changes
from pytest_mlebench.records.outcome import THRESHOLDS
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import ansi_code
from pytest_mlebench.results.overview import Overview, Precision, SplitComparison, headlines, mean_scores, precisions
from pytest_mlebench.results.profile import ProfileLine, fairness_profile
from pytest_mlebench.results.statistics import DIFFERENCE, MOST_SEEDS, POWER, Interval, PairedDifference
from pytest_mlebench.results.summary import SplitSummary, by_split, labels, split_rank

WIDTH = 120
_GAP = "  "
_LABEL_WIDTH = 26
_SHORT, _SHORTEST = 16, 8
"""Minimum width of a shortened cell: first in all columns but the first, then in all columns."""


def terminal_width(*, is_terminal: bool | None = None) -> int | None:
    """Return the terminal's width (``$COLUMNS`` takes precedence); None if standard output is not a terminal."""
    if not (sys.stdout.isatty() if is_terminal is None else is_terminal):
        return None
    return shutil.get_terminal_size().columns


def has_colours() -> bool:
    """Whether to use colours: on a terminal, or with $FORCE_COLOR; never with $NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


@dataclass(frozen=True)
class Table:
    """A table with a header row; the columns in ``numbers`` are right-aligned.

    Cells may contain untrusted text (see ``io.units``). ``spare`` lists the columns that may be dropped on a narrow
    terminal, in this order. ``codes`` are the rows' colours (see ``ansi_code``). ``about`` has the agent and split of
    each row, in full, for links to its runs; the split is empty for the whole benchmark.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()
    spare: Sequence[str] = ()
    codes: Sequence[str] = ()
    about: Sequence[tuple[str, str]] = ()

    def fitted(self, width: int | None) -> Table:
        """Fit the table into a width: drop spare columns, then shorten cells if necessary."""
        table = self
        for head in self.spare:
            if width is None or table._width <= width:
                return table
            table = table._without(head)
        return table if width is None else table._shortened(width)

    def lines(self) -> list[str]:
        """Return the heads and each row as a line, with two spaces between columns."""
        widths = self._widths
        return [
            _GAP.join(
                cell.rjust(width) if head in self.numbers else cell.ljust(width)
                for head, cell, width in zip(self.heads, row, widths, strict=True)
            ).rstrip()
            for row in self._cells
        ]

    def text(self, width: int | None = None, *, colours: bool = False) -> str:
        """Return the table for a terminal of this width, with a line that names the dropped columns."""
        table = self.fitted(width)
        heads, *rows = table.lines()
        if colours:
            heads = f"\x1b[1m{heads}\x1b[0m"
        if colours and self.codes:
            rows = [f"\x1b[{code}m{row}\x1b[0m" for code, row in zip(self.codes, rows, strict=True)]
        return "\n".join([heads, *rows, *_wrapped(self.missing(table), width or WIDTH)])

    def missing(self, fitted: Table) -> str:
        """Return a line that names the columns that a fitted table lacks; empty if it has all."""
        names = dict.fromkeys(head for head in self.heads if head not in fitted.heads)
        return f"columns that do not fit: {', '.join(names)}" if names else ""

    @property
    def _cells(self) -> list[list[str]]:
        return [[one_line(cell) for cell in row] for row in (self.heads, *self.rows)]

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(*self._cells, strict=True)]

    @property
    def _width(self) -> int:
        return sum(self._widths) + len(_GAP) * (len(self.heads) - 1)

    def _without(self, head: str) -> Table:
        kept = [k for k, other in enumerate(self.heads) if other != head]
        return replace(self, heads=[self.heads[k] for k in kept], rows=[[row[k] for k in kept] for row in self.rows])

    def _shortened(self, width: int) -> Table:
        """Shorten the longest text columns until the table fits or all are at their minimum; the first column last."""
        widths = self._widths
        texts = [k for k, head in enumerate(self.heads) if head not in self.numbers]
        for columns, shortest in ((texts[1:], _SHORT), (texts, _SHORTEST)):
            while columns and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
                longest = max(columns, key=lambda k: widths[k])
                if widths[longest] <= shortest:
                    break
                widths[longest] -= 1
        heads, *rows = [
            [_cut(cell, widths[k]) if k in texts else cell for k, cell in enumerate(row)] for row in self._cells
        ]
        return replace(self, heads=heads, rows=rows)

    def markdown(self) -> str:
        rule = ["---:" if head in self.numbers else "---" for head in self.heads]
        escaped = ([markdown_text(cell) for cell in line] for line in (self.heads, *self.rows))
        head, *rows = (f"| {' | '.join(line)} |" for line in escaped)
        return "\n".join([head, f"| {' | '.join(rule)} |", *rows])


@dataclass(frozen=True)
class Section:
    """A titled part of a report: tables, then remarks."""

    title: str
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()

    def text(self, width: int | None = None, *, colours: bool = False) -> str:
        columns = min(WIDTH, width or WIDTH)
        remarks = ["\n".join(_wrapped(one_line(line), columns)) for line in self.remarks]
        blocks = [table.text(width, colours=colours) for table in self.tables]
        blocks += ["\n".join(remarks)] if remarks else []
        title = textwrap.wrap(one_line(self.title), columns, break_on_hyphens=False)
        return "\n".join([*title, "-" * max(map(len, title), default=0), "\n\n".join(blocks)])

    def markdown(self) -> str:
        remarks = "\n".join(f"- {markdown_text(line)}" for line in self.remarks)
        blocks = [table.markdown() for table in self.tables] + ([remarks] if remarks else [])
        return f"## {markdown_text(self.title)}\n\n" + "\n\n".join(blocks)


def shortened(labels: Iterable[str]) -> Mapping[str, str]:
    """Shorten labels in the middle to fit a column, because names of run groups differ at the end.

    They are no shorter than needed to differ from each other.
    """
    wanted, width = dict.fromkeys(labels), _LABEL_WIDTH
    while len({_in_the_middle(label, width) for label in wanted}) < len(wanted):
        width += 2
    return {label: _in_the_middle(label, width) for label in wanted}


def _in_the_middle(label: str, width: int) -> str:
    half = (width - 1) // 2
    return label if len(label) <= width else f"{label[:half]}…{label[-half:]}"


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap a remark so that no line begins with a percent sign."""
    unbroken = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(unbroken, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def markdown_text(text: str) -> str:
    """Escape text for Markdown, including tables."""
    return re.sub(r"[\\`*_{}\[\]<>|~#]", r"\\\g<0>", one_line(text))


_MAX_PAIRS = 10
"""Maximum number of pairs of agents on a terminal; Markdown, HTML and JSON show all."""
_MAX_INFLUENCES = 3
_MAX_CHANGES = 8
_MAX_TEXT = 200
_WORDS = {"any_medal": "any medal", "percentile": "percentile"}
_CAUSES = (
    "Competition, seed, test rows: the share of each in the variance of a run's result (requires two seeds). "
    f"Seeds for {DIFFERENCE:g}: how many seeds reveal a difference of {DIFFERENCE:g} points from a similar agent in "
    f"{POWER:g} of 100 cases, on these competitions. Detectable: the difference that the present seeds reveal as "
    "often. Below: the rate without the competition that changes it most."
)
_POINTS = (
    "Differences are in percentage points, over pairs of runs of the same competition and seed. 6 on 3: six pairs, "
    "three competitions. The 95 % interval generalizes to similar competitions, the one over seeds to more seeds of "
    "the same competitions. p: two-sided exact sign test over competitions"
)


def precision_sections(view: Overview, *, details: bool = False) -> Iterator[Section]:
    """Yield the precision of each agent's results: on its headline splits, or with ``details`` on every split."""
    chosen = by_split(view.summaries) if details else headlines(view)
    found = [(summary, result) for summary in chosen for result in precisions(summary) if result.competitions > 1]
    if not found:
        return
    heads = ("split", "agent", "measure", "competition", "seed", "test rows", f"seeds for {DIFFERENCE:g}", "detectable")
    names = shortened(summary.label for summary, _ in found)
    rows = [_precision_row(names[summary.label], summary, result) for summary, result in found]
    table = Table(heads, rows, frozenset(heads[3:]), ("detectable", "measure"))
    remarks = [_CAUSES]
    if incomplete := [result for _, result in found if 0 < result.with_rows < result.scored]:
        share = min(100 * result.with_rows / result.scored for result in incomplete)
        remarks.append(
            f"Test rows: known for {share:.0f} % or more of the scored runs, and assumed to be similar for the others."
        )
    shown = _MAX_INFLUENCES if details else 1
    remarks += [_influences(summary, result, shown) for summary, result in found if result.measure == "any_medal"]
    yield Section("How sure these results are", [table], remarks)


def _precision_row(name: str, summary: SplitSummary, result: Precision) -> tuple[str, ...]:
    shares = result.variance.shares
    needed = result.seeds_needed
    return (
        summary.split,
        name,
        _WORDS[result.measure],
        *(f"{shares[cause]:.0f} %" if cause in shares else "-" for cause in ("competitions", "seeds", "rows")),
        "-" if needed is None else f"{needed:,}" if needed < MOST_SEEDS else f"> {MOST_SEEDS:,}",
        "-" if result.detectable is None else f"> {100}" if result.detectable > 100 else f"{result.detectable:.1f}",
    )


def _influences(summary: SplitSummary, result: Precision, shown: int) -> str:
    moved = [f"{result.mean + shift:.1f} without {id}" for id, shift in list(result.influences.items())[:shown]]
    return f"{summary.label} on {summary.split}: any medal {result.mean:.1f}, {', '.join(moved)}"


def paired_sections(view: Overview, *, details: bool) -> Iterator[Section]:
    """Yield every pair of agents; without ``details``, only as many as a terminal should show."""
    shown = view.comparisons if details else _most_important(view.comparisons)
    if not shown:
        return
    several = len({(pair.ours.label, pair.theirs.label) for pair in view.comparisons}) > 1
    tables = [_pairs([(pair, pair.difference) for pair in shown], several=several)]
    if percentiles := [(pair, pair.percentile) for pair in shown if pair.percentile is not None]:
        tables.append(_pairs(percentiles, several=several, what="percentile"))
    first = shown[0]
    subject = "The first agent minus the second" if several else f"{first.ours.label} minus {first.theirs.label}"
    remarks = [
        f"{subject}. {_POINTS}{', adjusted for the number of pairs (Holm)' if several else ''}.",
        *_setting_differences(view.groups),
    ]
    if len(shown) < len(view.comparisons):
        remarks.append(f"{len(view.comparisons) - len(shown)} more comparisons: --format=md or json shows all")
    yield Section("Paired comparison", tables, remarks)


def _most_important(comparisons: Sequence[SplitComparison]) -> Sequence[SplitComparison]:
    """Return all comparisons, or those over the whole benchmark if there are too many."""
    if len(comparisons) <= _MAX_PAIRS:
        return comparisons
    whole = [pair for pair in comparisons if pair.ours.is_whole]
    return (whole or comparisons)[:_MAX_PAIRS]


def _pairs(
    found: Sequence[tuple[SplitComparison, PairedDifference]], *, several: bool, what: str = "any medal"
) -> Table:
    both = ("first", "second") if several else ()
    counts = ("wins", "ties", "losses")
    heads = ("split", *both, "pairs", what, "95 % interval", "over seeds", *counts, "p")
    names = shortened(side.label for comparison, _ in found for side in (comparison.ours, comparison.theirs))
    rows = [
        (
            comparison.split,
            *((names[comparison.ours.label], names[comparison.theirs.label]) if several else ()),
            f"{difference.runs} on {difference.competitions}",
            f"{difference.mean:+.1f}",
            interval_text(difference.interval),
            interval_text(difference.seeds_interval),
            str(difference.wins),
            str(difference.ties),
            str(difference.losses),
            p_value_text(difference),
        )
        for comparison, difference in found
    ]
    spare = (*reversed(counts), "over seeds")
    return Table(heads, rows, frozenset(heads[len(both) + 1 :]), spare)


def _setting_differences(groups: Sequence[RunGroup]) -> list[str]:
    """Return a sentence about the differences between two groups' settings; empty if they are unknown."""
    if len(groups) != 2 or not all(group.manifest.settings for group in groups):
        return []
    ours, theirs = groups
    found = changes(theirs.manifest.settings, ours.manifest.settings)
    if not found:
        return [f"the settings of {ours.name} and {theirs.name} are the same"]
    more = f"; and {len(found) - _MAX_CHANGES} more" if len(found) > _MAX_CHANGES else ""
    shown = "; ".join(text[:_MAX_TEXT] for text in found[:_MAX_CHANGES])
    return [f"settings of {ours.name} that differ from {theirs.name}: {shown}{more}"]


def runs_text(summary: SplitSummary) -> str:
    """Return competitions × seeds, for example ``22 × 3``."""
    if summary.is_provisional:
        return f"{summary.results} of {summary.results + summary.missing}"
    return f"{summary.competitions} × {summary.seeds}"


def interval_text(interval: Interval | None) -> str:
    return "-" if interval is None else str(interval)


def p_value_text(difference: PairedDifference) -> str:
    p = difference.adjusted_p_value
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def fairness_sections(groups: Sequence[RunGroup]) -> Iterator[Section]:
    for group in groups:
        name = f"Fairness profile, {group.name}" if len(groups) > 1 else "Fairness profile"
        yield Section(name, remarks=profile_remarks(fairness_profile(group)))


def profile_remarks(lines: Sequence[ProfileLine]) -> list[str]:
    """Return the lines as remarks, which wrap on a narrow terminal."""
    return [f"{line.name}: {line.state}: {line.detail}" for line in lines]


_SPARE = (*reversed(THRESHOLDS), "time", "ended", "cost", "firm", "seed")
"""Columns that may be dropped on a narrow terminal; names, medals and scores stay."""
_NUMBERS = frozenset({"seed", "score", *THRESHOLDS, "time", "cost"})
_LONGEST_HEAD = 12
"""If an agent's name is longer, columns are headed ``agent 1`` etc., so that the thresholds still fit on the line."""


def in_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Sort runs by split, competition, agent and seed."""
    return sorted(records, key=lambda r: (split_rank(r.split), r.competition_id, r.agent, r.seed))


def medal_table(records: Sequence[RunRecord]) -> Table:
    """Return a table with a row for each run. The cost column exists only if runs called language models.

    ``firm`` is whether a medal holds in 95 % of resamples of the test rows; the column exists only if any is known.
    `docs/architecture.md` lists other tables that need the same columns.
    """
    words = {"firm": "yes", "not firm": "no"}
    cells: dict[str, Callable[[RunRecord], str]] = {
        "competition": lambda run: run.competition_id,
        "agent": lambda run: run.agent,
        "seed": lambda run: str(run.seed),
        "medal": medal_label,
        "firm": lambda run: words.get(run.report.firmness, run.report.firmness),
        "score": lambda run: format_score(run.score),
        **{name: partial(_threshold, name) for name in THRESHOLDS},
        "time": lambda run: format_seconds(run.seconds),
        "cost": lambda run: format_dollars(run.cost) if run.usage.calls else "-",
        "ended": lambda run: run.ending,
    }
    if all(run.report.firm is None for run in records):
        del cells["firm"]
    if all(run.usage.calls is None for run in records):
        del cells["cost"]
    rows = [[cell(run) for cell in cells.values()] for run in records]
    return Table(tuple(cells), rows, _NUMBERS, _SPARE, [ansi_code(run.outcome.colour) for run in records])


def _threshold(name: str, run: RunRecord) -> str:
    return format_score(run.thresholds[name])


def run_sections(groups: Sequence[RunGroup]) -> Iterable[Section]:
    """Yield the runs of each group, then all agents side by side, competition by competition."""
    for group in groups:
        yield Section(f"Runs of {group.name}", [medal_table(in_order(group.records))])
    versions = dict.fromkeys(group.version for group in groups)
    for version in versions:
        columns = _columns([group for group in groups if group.version == version])
        if len(columns) > 1:
            yield _side_by_side(columns)
    if len(versions) > 1:
        texts = [f"{group.name} uses version {group.version[1:]}" for group in groups]
        yield Section("Not compared competition by competition", remarks=[f"{listed(texts)} of the benchmark"])


_Column = Mapping[str, list[RunRecord]]
"""An agent's runs by competition."""


def _columns(groups: Sequence[RunGroup]) -> Mapping[str, _Column]:
    names = labels(groups)
    found: dict[str, dict[str, list[RunRecord]]] = {label: {} for label in names.values()}
    for group in groups:
        for record in group.records:
            found[names[group.folder, record.agent]].setdefault(record.competition_id, []).append(record)
    return found


def _side_by_side(columns: Mapping[str, _Column]) -> Section:
    agents = list(columns)
    fit = max(map(len, agents)) <= _LONGEST_HEAD
    names = agents if fit else [f"agent {number}" for number in range(1, len(agents) + 1)]
    rows = []
    for record in in_order({id: runs[0] for column in columns.values() for id, runs in column.items()}.values()):
        cells = [column.get(record.competition_id, []) for column in columns.values()]
        means = mean_scores([{run.seed: run.score for run in runs if run.score is not None} for runs in cells])
        both = [(format_score(mean), _medals(runs)) for mean, runs in zip(means, cells, strict=True)]
        difference = [_difference(means)] if len(agents) == 2 else []
        better = "lower" if record.report.is_lower_better else "higher"
        thresholds = map(format_score, record.thresholds.values())
        rows.append((record.competition_id, *chain.from_iterable(both), *difference, better, *thresholds))
    difference = ["difference"] if len(agents) == 2 else []
    heads = ("competition", *chain.from_iterable((name, "medal") for name in names), *difference, "better", *THRESHOLDS)
    numbers = frozenset({*names, "difference", *THRESHOLDS})
    remarks = [f"{name}: {agent}" for name, agent in zip(names, agents, strict=True) if not fit]
    return Section(
        f"{listed(agents)}, competition by competition",
        [Table(heads, rows, numbers, (*reversed(THRESHOLDS), "better", "medal"))],
        [*remarks, "Scores are means over the seeds that all agents with a score have in common."],
    )


def _difference(means: Sequence[float | None]) -> str:
    first, second = means
    return "-" if first is None or second is None else f"{second - first:+.5f}"


def _medals(records: Sequence[RunRecord]) -> str:
    """Return the medal of one run, or the number of each for several runs, best first."""
    ranked = sorted(records, key=lambda record: record.outcome.rank)
    counts = Counter(map(medal_label, ranked))
    if len(records) < 2:
        return "".join(counts) or "-"
    return ", ".join(f"{count} {label}" for label, count in counts.items())


def medal_label(record: RunRecord) -> str:
    """Return the outcome, with a leading ``~`` if the medal is only indicative of Kaggle's leaderboard."""
    is_indicative = record.report.any_medal and record.report.thresholds == "indicative"
    return f"~{record.outcome.label}" if is_indicative else record.outcome.label
