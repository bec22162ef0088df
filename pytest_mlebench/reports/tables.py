"""Tables for a terminal and for Markdown: runs, agents side by side, and how sure the results are."""

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
"""Characters that a shortened cell keeps: before names are shortened as well, and after."""


def terminal_width(*, is_terminal: bool | None = None) -> int | None:
    """The columns of the terminal (``$COLUMNS`` takes precedence); None if standard output is not a terminal."""
    if not (sys.stdout.isatty() if is_terminal is None else is_terminal):
        return None
    return shutil.get_terminal_size().columns


def has_colours() -> bool:
    """Whether standard output shows colours: a terminal without $NO_COLOR, or anything with $FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


@dataclass(frozen=True)
class Table:
    """Cells in rows below heads; the columns in ``numbers`` are aligned to the right.

    Cells may hold untrusted text (see ``io.units``). ``spare`` are the columns that a narrow terminal can do without,
    in the order in which they are dropped. ``codes`` colour the rows where there are colours (see ``ansi_code``).
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()
    spare: Sequence[str] = ()
    codes: Sequence[str] = ()

    def fitted(self, width: int | None) -> Table:
        """The table as it fits into a width: without some of the spare columns; if need be with shortened cells."""
        table = self
        for head in self.spare:
            if width is None or table._width <= width:
                return table
            table = table._without(head)
        return table if width is None else table._shortened(width)

    def lines(self) -> list[str]:
        """The heads and each row as a line, with two spaces between columns."""
        return [
            _GAP.join(
                cell.rjust(width) if head in self.numbers else cell.ljust(width)
                for head, cell, width in zip(self.heads, row, self._widths, strict=True)
            ).rstrip()
            for row in self._cells
        ]

    def text(self, width: int | None = None, *, colours: bool = False) -> str:
        """The table for a terminal of this width, with a line that says which columns it has no room for."""
        table = self.fitted(width)
        heads, *rows = table.lines()
        if colours:
            heads = f"\x1b[1m{heads}\x1b[0m"
        if colours and self.codes:
            rows = [f"\x1b[{code}m{row}\x1b[0m" for code, row in zip(self.codes, rows, strict=True)]
        left_out = [part for line in self.missing(table) for part in _wrapped(line, width or WIDTH)]
        return "\n".join([heads, *rows, *left_out])

    def missing(self, fitted: Table) -> list[str]:
        """A line that says which columns a fitted table lacks; none if it has all."""
        names = dict.fromkeys(head for head in self.heads if head not in fitted.heads)
        if not names:
            return []
        return [f"no room for the column{'s' if len(names) > 1 else ''} {', '.join(names)}"]

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
        kept = [k for k, own in enumerate(self.heads) if own != head]
        return replace(self, heads=[self.heads[k] for k in kept], rows=[[row[k] for k in kept] for row in self.rows])

    def _shortened(self, width: int) -> Table:
        """Cut the longest columns of text until the table fits, or all of them are short; the names in front last."""
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


def short(label: str) -> str:
    """A label that fits its column. The middle is left out, as the ends of run groups' names differ."""
    half = (_LABEL_WIDTH - 1) // 2
    return label if len(label) <= _LABEL_WIDTH else f"{label[:half]}…{label[-half:]}"


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a remark; no line begins with a percent sign."""
    whole = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(whole, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def markdown_text(text: str) -> str:
    """Text that Markdown shows unchanged, also within a table."""
    return re.sub(r"[\\`*_{}\[\]<>|~#]", r"\\\g<0>", one_line(text))


_SHOWN_PAIRS = 10
"""So many pairs of agents a terminal shows; Markdown, HTML and JSON have all."""
_SHOWN_INFLUENCES = 3
_SHOWN_CHANGES = 8
_SHOWN_TEXT = 200
_WORDS = {"any_medal": "any medal", "percentile": "percentile"}
_CAUSES = (
    "Competition, seed, test rows: the share of each in the variance of a run's result; it needs two seeds. "
    f"Seeds for {DIFFERENCE:g}: how many seeds reveal a difference of {DIFFERENCE:g} points from a similar agent in "
    f"{POWER:g} of 100 cases, on these competitions. Shown now: the difference that the present seeds reveal as often. "
    "Below: the rate without the competition that changes it most."
)
_POINTS = (
    "Differences are in percentage points, over pairs of runs of the same competition and seed. 6 on 3: six pairs, "
    "three competitions. The 95 % interval generalizes to similar competitions, the one over seeds to more seeds of "
    "the same competitions. p: two-sided exact sign test over competitions"
)


def precision_sections(view: Overview, *, details: bool = False) -> Iterator[Section]:
    """How sure each agent's results are: on the whole, or with ``details`` on every split."""
    chosen = by_split(view.summaries) if details else headlines(view)
    found = [(summary, own) for summary in chosen for own in precisions(summary) if own.competitions > 1]
    if not found:
        return
    heads = ("split", "agent", "measure", "competition", "seed", "test rows", f"seeds for {DIFFERENCE:g}", "shown now")
    rows = [_precision_row(summary, own) for summary, own in found]
    table = Table(heads, rows, frozenset(heads[3:]), ("shown now", "measure"))
    remarks = [_CAUSES]
    if partial := [own for _, own in found if 0 < own.with_rows < own.scored]:
        share = min(100 * own.with_rows / own.scored for own in partial)
        remarks.append(
            f"Test rows: known of {share:.0f} % or more of the runs with a score, and taken to be alike in the others."
        )
    shown = _SHOWN_INFLUENCES if details else 1
    remarks += [_influences(summary, own, shown) for summary, own in found if own.measure == "any_medal"]
    yield Section("How sure these results are", [table], remarks)


def _precision_row(summary: SplitSummary, own: Precision) -> tuple[str, ...]:
    shares = own.variance.shares
    needed = own.seeds_needed
    return (
        summary.split,
        short(summary.label),
        _WORDS[own.measure],
        *(f"{shares[cause]:.0f} %" if cause in shares else "-" for cause in ("competitions", "seeds", "rows")),
        "-" if needed is None else f"{needed:,}" if needed < MOST_SEEDS else f"> {MOST_SEEDS:,}",
        "-" if own.detectable is None else f"> {100}" if own.detectable > 100 else f"{own.detectable:.1f}",
    )


def _influences(summary: SplitSummary, own: Precision, shown: int) -> str:
    moved = [f"{own.mean + shift:.1f} without {id}" for id, shift in list(own.influences.items())[:shown]]
    return f"{summary.label} on {summary.split}: any medal {own.mean:.1f}, {', '.join(moved)}"


def paired_sections(view: Overview, *, details: bool) -> Iterator[Section]:
    """Every pair of agents; without ``details`` only so many as a terminal should show."""
    shown = view.comparisons if details else _foremost(view.comparisons)
    if not shown:
        return
    several = len({(own.ours.label, own.theirs.label) for own in view.comparisons}) > 1
    tables = [_pairs([(own, own.difference) for own in shown], several=several)]
    if percentiles := [(own, own.percentile) for own in shown if own.percentile is not None]:
        tables.append(_pairs(percentiles, several=several, what="percentile"))
    first = shown[0]
    who = "The first agent minus the second" if several else f"{first.ours.label} minus {first.theirs.label}"
    remarks = [
        f"{who}. {_POINTS}{', adjusted for the number of pairs (Holm)' if several else ''}.",
        *_setting_differences(view.groups),
    ]
    if len(shown) < len(view.comparisons):
        remarks.append(f"{len(view.comparisons) - len(shown)} more comparisons: --format=md or json shows all")
    yield Section("Paired comparison", tables, remarks)


def _foremost(comparisons: Sequence[SplitComparison]) -> Sequence[SplitComparison]:
    """All, or those over the whole benchmark, if there are too many."""
    if len(comparisons) <= _SHOWN_PAIRS:
        return comparisons
    whole = [own for own in comparisons if own.ours.is_whole]
    return (whole or comparisons)[:_SHOWN_PAIRS]


def _pairs(
    found: Sequence[tuple[SplitComparison, PairedDifference]], *, several: bool, what: str = "any medal"
) -> Table:
    names = ("first", "second") if several else ()
    counts = ("wins", "ties", "losses")
    heads = ("split", *names, "pairs", what, "95 % interval", "over seeds", *counts, "p")
    rows = [
        (
            comparison.split,
            *((short(comparison.ours.label), short(comparison.theirs.label)) if several else ()),
            f"{own.runs} on {own.competitions}",
            f"{own.mean:+.1f}",
            interval_text(own.interval),
            interval_text(own.seeds_interval),
            str(own.wins),
            str(own.ties),
            str(own.losses),
            _p_value(comparison.adjusted_p if what == "any medal" else own.p_value),
        )
        for comparison, own in found
    ]
    spare = (*reversed(counts), "over seeds")
    return Table(heads, rows, frozenset(heads[len(names) + 1 :]), spare)


def _setting_differences(groups: Sequence[RunGroup]) -> list[str]:
    """What differs between the settings of two groups, in a sentence; nothing where it is not known."""
    if len(groups) != 2 or not all(group.manifest.settings for group in groups):
        return []
    ours, theirs = groups
    found = changes(theirs.manifest.settings, ours.manifest.settings)
    if not found:
        return [f"the settings of {ours.name} and {theirs.name} are the same"]
    more = f"; and {len(found) - _SHOWN_CHANGES} more" if len(found) > _SHOWN_CHANGES else ""
    shown = "; ".join(text[:_SHOWN_TEXT] for text in found[:_SHOWN_CHANGES])
    return [f"what differs in {ours.name} from {theirs.name}: {shown}{more}"]


def runs_text(summary: SplitSummary) -> str:
    """For example ``22 × 3``, competitions and seeds."""
    if summary.is_provisional:
        return f"{summary.results} of {summary.results + summary.missing}"
    return f"{summary.competitions} × {summary.seeds}"


def interval_text(interval: Interval | None) -> str:
    return "-" if interval is None else str(interval)


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def fairness_sections(groups: Sequence[RunGroup]) -> Iterator[Section]:
    for group in groups:
        name = f"Fairness profile, {group.name}" if len(groups) > 1 else "Fairness profile"
        yield Section(name, remarks=profile_remarks(fairness_profile(group)))


def profile_remarks(lines: Sequence[ProfileLine]) -> list[str]:
    """As sentences, which wrap where a terminal is narrow."""
    return [f"{line.name}: {line.state}: {line.detail}" for line in lines]


_SPARE = (*reversed(THRESHOLDS), "time", "ended", "cost", "firm", "seed")
"""What a narrow terminal can do without; names, medals and scores stay."""
_NUMBERS = frozenset({"seed", "score", *THRESHOLDS, "time", "cost"})
_LONGEST_HEAD = 12
"""An agent's name above its scores is cut to this many characters, so that the thresholds still fit on the line."""


def in_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Runs by split, competition, agent and seed."""
    return sorted(records, key=lambda r: (split_rank(r.split), r.competition_id, r.agent, r.seed))


def medal_table(records: Sequence[RunRecord]) -> Table:
    """A row for each run; with what it cost, where runs asked language models. ``_NUMBERS`` are aligned to the right,
    ``_SPARE`` left out first. `docs/architecture.md` says which other tables have columns of their own.

    ``firm`` is whether a medal holds in 95 % of resamples of the test's rows, if that is known of any.
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
    """The runs of each group, then all agents competition by competition: a column is an agent of a group."""
    for group in groups:
        yield Section(f"Runs of {group.name}", [medal_table(in_order(group.records))])
    versions = dict.fromkeys(group.version for group in groups)
    for version in versions:
        own = [group for group in groups if group.version == version]
        columns = _columns(own)
        if len(columns) > 1:
            yield _side_by_side(columns)
    if len(versions) > 1:
        of = [f"{group.name} is of version {group.version[1:]}" for group in groups]
        yield Section("Not compared competition by competition", remarks=[f"{listed(of)} of the benchmark"])


_Column = Mapping[str, list[RunRecord]]
"""An agent's runs by competition."""


def _columns(groups: Sequence[RunGroup]) -> Mapping[str, _Column]:
    """Each agent's runs by its label."""
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
    for record in in_order({id: runs[0] for own in columns.values() for id, runs in own.items()}.values()):
        cells = [own.get(record.competition_id, []) for own in columns.values()]
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
    one, other = means
    return "-" if one is None or other is None else f"{other - one:+.5f}"


def _medals(records: Sequence[RunRecord]) -> str:
    """The medal of one run; of several, how many had each, the best first."""
    ranked = sorted(records, key=lambda record: record.outcome.rank)
    counts = Counter(map(medal_label, ranked))
    if len(records) < 2:
        return "".join(counts) or "-"
    return ", ".join(f"{count} {label}" for label, count in counts.items())


def medal_label(record: RunRecord) -> str:
    """The outcome; a medal that only indicates what it would be on Kaggle's leaderboard has a ``~`` before it."""
    is_indicative = record.report.any_medal and record.report.thresholds == "indicative"
    return f"~{record.outcome.label}" if is_indicative else record.outcome.label
