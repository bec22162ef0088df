"""Sections of a report, for a terminal and for Markdown: a title and a few sentences, then titled tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.io.units import first, format_dollars, format_duration, format_score, have, listed, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Outcome, Report
from pytest_mlebench.reports.run_details import counted
from pytest_mlebench.reports.run_details import last_change_in_words as in_words
from pytest_mlebench.reports.tables import (
    Section,
    Table,
    fairness_sections,
    interval_text,
    paired_sections,
    precision_sections,
    runs_text,
    shortened,
)
from pytest_mlebench.results.findings import caveats
from pytest_mlebench.results.overview import (
    Overview,
    Spending,
    SplitComparison,
    Standing,
    flags,
    headlines,
    rate_at,
    spending,
    timelines,
)
from pytest_mlebench.results.statistics import FEW, Rate
from pytest_mlebench.results.summary import RATES, SplitSummary, by_split, grader_defects
from pytest_mlebench.runs.regrade import Regrading, latest_regradings

_MAX_REMARKS = 20
_MAX_NAMED = 3
"""Number of agents that are named; the others are only counted."""


def regraded_sections(groups: Sequence[RunGroup]) -> Iterator[Section]:
    """Yield each group's latest regrading for each version of the benchmark."""
    for group in groups:
        found, broken = latest_regradings(group.folder)
        for regrading in found:
            title = f"Regraded: {group.name}, version {regrading.bench_version.removeprefix('v')}"
            table = changes_table(regrading)
            remarks = [f"{summary(regrading)} on {regrading.regraded_at[:10]}; other tables show the original grades"]
            remarks += first(not_graded_remarks(regrading), _MAX_REMARKS)
            yield Section(title, [table] if table else [], remarks)
        if broken:
            yield Section(f"Regraded: {group.name}", remarks=[f"cannot be read: {text}" for text in broken])


def changes_table(regrading: Regrading) -> Table | None:
    """Return the runs whose grade changed; None if there are none."""
    if not regrading.changed:
        return None
    rows = [
        (run.competition_id, run.agent, str(run.seed), _grade(run.before), _grade(run.after), "; ".join(run.changes))
        for run in regrading.changed
    ]
    heads = ("competition", "agent", "seed", "before", "after", "changes")
    return Table(heads, rows, frozenset({"seed"}), ("changes",))


def not_graded_remarks(regrading: Regrading) -> list[str]:
    """Return which runs could not be regraded, and why."""
    return [f"{run_id}: not graded: {why}" for run_id, why in regrading.not_graded.items()]


def summary(regrading: Regrading) -> str:
    """Return for example ``4 runs regraded, 1 with a different grade``."""
    return f"{pluralize(len(regrading.runs), 'run')} regraded, {len(regrading.changed)} with a different grade"


def _grade(report: Report) -> str:
    return f"{format_score(report.score)} {report.medal or ''}".strip()


Cell = Callable[[SplitSummary], str]

_NEIGHBOURS = 2
"""Number of published results that are shown on either side of an agent."""
_SHOWN_K = (2, 3, 4)
_MAX_LOSSES = 5
_OVER_TIME = (
    "Percentage of runs whose submission at that time would have earned a medal; best kept: if each run had ended with "
    "its best recorded submission."
)
_EXPLANATION = (
    "Percentage of competitions; mean ± standard error over seeds, if several seeds differ. 95 % interval: Wilson's "
    "confidence interval over competitions. Percentile: mean percentage of the leaderboard's teams that a run beats or "
    "equals, 0 without a valid submission, with a 95 % confidence interval (Student's t). pass@k: any medal in the "
    "best of k runs."
)


def sections(view: Overview, *, details: bool = False) -> Iterator[Section]:
    """Yield the report's sections, most important first; ``details`` adds rows that are too many for a terminal."""
    yield Section("Run groups", remarks=[_setting(group) for group in view.groups])
    yield from rate_sections(view)
    yield from precision_sections(view, details=details)
    yield from cost_sections(view)
    yield from timeline_sections(view)
    yield Section("Runs by outcome", remarks=[_outcomes(label, view) for label in _labels(view)])
    yield from regraded_sections(view.groups)
    yield from comparison_sections(view, details=details)
    yield from fairness_sections(view.groups)
    if defects := grader_defects(view.records):
        yield Section("Defective graders", remarks=defects)
    if broken := [f"left out: {reason}" for group in view.groups for reason in group.broken]:
        yield Section("Broken files", remarks=broken)


def rate_sections(view: Overview) -> Iterator[Section]:
    """Yield each agent's rates by split and, if requested, by category."""
    yield _medals(view)
    yield Section("Other rates", [_table(view.summaries, _rate_columns(tuple(RATES)[1:]))])
    for split in dict.fromkeys(summary.split for summary in view.categories):
        yield _categories(split, [summary for summary in view.categories if summary.split == split])


def cost_sections(view: Overview) -> Iterator[Section]:
    """Yield the cost of language models, for runs that used the gateway."""
    if not (costs := spending(view.records)):
        return
    heads = ("split", "agent", "runs", "cost", "a run", "a medal", "calls", "tokens in", "cached", "out", "reasoning")
    names = shortened(spent.agent for spent in costs)
    rows = [
        (
            spent.split,
            names[spent.agent],
            str(spent.runs),
            *map(format_dollars, (spent.cost, spent.cost_per_run)),
            format_dollars(spent.cost_per_medal) if spent.medals else "-",
            f"{spent.calls:,}",
            f"{spent.input_tokens:,}",
            f"{spent.cached_tokens:,}",
            f"{spent.output_tokens:,}",
            f"{spent.reasoning_tokens:,}",
        )
        for spent in costs
    ]
    about = [(spent.agent, spent.split) for spent in costs]
    table = Table(heads, rows, frozenset(heads[2:]), heads[:2:-1], about=about)
    yield Section("Cost", [table], list(_cost_remarks(costs)))


def _cost_remarks(costs: Iterable[Spending]) -> Iterator[str]:
    for spent in costs:
        name = f"{spent.agent} on {spent.split}"
        if spent.cost is None:
            known = f"the others cost {format_dollars(spent.known_cost)}"
            yield f"{name}: the cost of some calls is unknown; {known}. --prices adds prices of models."
        if spent.budgets_ended:
            yield f"{name}: budget used up in {pluralize(spent.budgets_ended, 'run')}"
        if spent.failures:
            yield f"{name}: requests that failed: {counted(spent.failures)}"


def timeline_sections(view: Overview) -> Iterator[Section]:
    """Yield medals over time and lost medals, if there are snapshots, and how accurate agents' estimates are."""
    found = timelines(view.records)
    shown = [timeline for timeline in found if timeline.with_snapshots]
    if not shown and not any(timeline.estimates for timeline in found):
        return
    longest = max(record.seconds for record in view.records)
    marks = [longest * share for share in (1 / 8, 1 / 4, 1 / 2)]
    heads = ("split", "agent", "runs", *(f"by {format_duration(mark)}" for mark in marks), "final", "best kept",
        "last was worse", "medals lost")  # fmt: skip
    names = shortened(timeline.agent for timeline in shown)
    rows = [
        (
            timeline.split,
            names[timeline.agent],
            str(timeline.runs),
            *(f"{rate_at(timeline.over_time, mark):.1f}" for mark in marks),
            f"{timeline.final:.1f}",
            f"{timeline.best:.1f}",
            str(timeline.last_was_worse),
            str(timeline.medals_lost),
        )
        for timeline in shown
    ]
    remarks = [_OVER_TIME] if shown else []
    lost = [record for record in view.records if record.last_change is not None and record.last_change.medal_lost]
    losses = [f"{run.agent} on {run.competition_id}, seed {run.seed}: {in_words(run)}" for run in lost]
    remarks += first(losses, _MAX_LOSSES)
    remarks += [
        f"{timeline.agent} on {timeline.split}: {pluralize(timeline.estimates, 'run')} with an estimate by the agent, "
        f"{timeline.too_optimistic} of them better than the actual score"
        for timeline in found
        if timeline.estimates
    ]
    about = [(timeline.agent, timeline.split) for timeline in shown]
    table = Table(heads, rows, frozenset(heads[2:]), heads[:2:-1], about=about)
    yield Section("Submissions over time", [table] if shown else [], remarks)


def comparison_sections(view: Overview, *, details: bool) -> Iterator[Section]:
    """Yield each agent's rank among the published results, and every pair of agents."""
    for split in dict.fromkeys(standing.summary.split for standing in view.standings):
        yield _published(split, [standing for standing in view.standings if standing.summary.split == split])
    if view.not_ranked:
        yield Section("Not compared with the published results", remarks=view.not_ranked)
    yield from paired_sections(view, details=details)


def _setting(group: RunGroup) -> str:
    canonical = group.manifest.canonical
    if canonical is None:
        setting = "setting not recorded"
        if run_by := group.manifest.run_by:
            setting = f"run by {run_by}, imported; {setting}"
    elif canonical.is_canonical:
        setting = "canonical setting"
    else:
        setting = f"not the canonical setting: {'; '.join(canonical.differences)}"
    if group.version != FIRST:
        setting += f"; version {group.version[1:]} (corrected) of the benchmark"
    return f"{group.name}: {len(group.runs)} of {pluralize(len(group.planned), 'run')} recorded; {setting}"


def _medals(view: Overview) -> Section:
    seeds = max((summary.seeds for summary in view.summaries), default=0)
    ks = [k for k in _SHOWN_K if k < seeds] + ([seeds] if seeds > 1 else [])
    columns = {
        "runs": runs_text,
        "any medal": lambda s: _rate(s.any_medal) + "*" * s.is_provisional,
        "95 % interval": lambda s: interval_text(s.interval),
        "percentile": _percentile,
        **{f"pass@{k}": _pass_at(k) for k in ks},
    }
    notes = [f"{s.label} on {s.split}: {'* ' * s.is_provisional}{s.note}" for s in by_split(view.summaries) if s.note]
    notes += [f"{s.label} on {s.split}: {s.caution}" for s in by_split(view.summaries) if s.caution]
    return Section("Medals", [_table(view.summaries, columns)], [*notes, _EXPLANATION])


def _categories(split: str, summaries: Sequence[SplitSummary]) -> Section:
    medals = {"runs": runs_text, **_rate_columns(tuple(RATES)[:4]), "percentile": _percentile}
    tables = [_table(summaries, medals), _table(summaries, _rate_columns(tuple(RATES)[4:]))]
    notes = [f"{s.label} on {s.category}: {s.note}" for s in by_split(summaries) if s.note]
    return Section(f"By category, {split}", tables, notes)


def _rate_columns(names: Iterable[str]) -> dict[str, Cell]:
    def column(name: str) -> Cell:
        return lambda summary: _rate(getattr(summary, name))

    return {name.replace("_", " "): column(name) for name in names}


def _pass_at(k: int) -> Cell:
    return lambda summary: f"{summary.pass_at_k[k - 1]:.1f}" if k <= summary.seeds else "-"


def _percentile(summary: SplitSummary) -> str:
    if summary.percentile is None:
        return "-"
    known = len(summary.percentiles)
    of = "" if known == summary.competitions else f" (of {known})"
    between = "" if summary.percentile_interval is None else f" {summary.percentile_interval}"
    return f"{summary.percentile:.1f}{between}{of}"


def _table(summaries: Sequence[SplitSummary], columns: dict[str, Cell]) -> Table:
    ordered = by_split(summaries)
    what = "split" if all(summary.category is None for summary in ordered) else "category"
    names = shortened(summary.label for summary in ordered)
    rows = [
        (summary.category or summary.split, names[summary.label], *(cell(summary) for cell in columns.values()))
        for summary in ordered
    ]
    about = [(summary.label, "" if summary.is_whole else summary.split) for summary in ordered if what == "split"]
    return Table((what, "agent", *columns), rows, frozenset(columns), list(columns)[:0:-1], about=about)


def _outcomes(label: str, view: Overview) -> str:
    summaries = [summary for summary in view.summaries if summary.label == label and not summary.is_whole]
    counts = {outcome.label: sum(summary.counts[outcome] for summary in summaries) for outcome in Outcome}
    counts["missing"] = sum(summary.missing - summary.counts[Outcome.error] for summary in summaries)
    shown = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{label}: {pluralize(sum(counts.values()), 'run')}: {shown}"


def _published(split: str, standings: Sequence[Standing]) -> Section:
    others = [*reversed(standings[0].better), *standings[0].worse]
    names = shortened(standing.summary.label for standing in standings)
    rows: list[tuple[str, ...]] = []
    shown_last = -1
    for position in range(len(others) + 1):
        for standing in sorted(standings, key=lambda standing: -standing.summary.any_medal.mean):
            if len(standing.better) == position:
                ours = standing.summary
                rows.append(("→", names[ours.label], "", _rate(ours.any_medal), "", ""))
        if position < len(others) and any(-_NEIGHBOURS <= position - len(s.better) < _NEIGHBOURS for s in standings):
            if position != shown_last + 1:
                rows.append(("…", "", "", "", "", ""))
            shown_last = position
            result = others[position]
            rows.append(
                (str(position + 1), result.agent, result.llm, _rate(result.rates[split]), result.date, flags(result))
            )
    heads = ("rank", "agent", "LLM", "any medal", "date", "remarks")
    table = Table(heads, rows, frozenset({"rank", "any medal"}), ("remarks", "date"))
    ranks = [f"{s.summary.label}: rank {s.rank} of {s.of}" for s in standings]
    caveats: dict[str, list[str]] = {}
    for standing in standings:
        for caveat in standing.caveats:
            caveats.setdefault(caveat, []).append(standing.summary.label)
    shown = [f"{', '.join(labels)}: {caveat}" for caveat, labels in caveats.items()]
    return Section(f"Among the published results, {split}", [table], [*ranks, *shown])


def _labels(view: Overview) -> list[str]:
    return list(dict.fromkeys(summary.label for summary in view.summaries))


def _rate(rate: Rate) -> str:
    if math.isnan(rate.mean):
        return "-"
    return f"{rate.mean:.1f}{rate.spread}"


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The top of a report. The texts are untrusted, because they contain agents' names.

    ``caveats`` are sentences that qualify the verdict, such as runs without a result or synthetic data.
    """

    title: str
    note: str
    verdict: str
    caveats: Sequence[str]

    @property
    def sentences(self) -> list[str]:
        return [*filter(None, [self.note]), self.verdict, *self.caveats]


def heading(view: Overview, *, title: str | None = None, note: str | None = None) -> Heading:
    """Return the top of a report. Title and note default to the groups' ``--title`` and ``--note``."""
    return Heading(
        title=title or _group_option(view, "--title") or _title(view),
        note=note or _group_option(view, "--note"),
        verdict=_verdict(view),
        caveats=list(_caveats(view)),
    )


def _group_option(view: Overview, option: str) -> str:
    """Return the option's value if it is the same for all groups, else an empty string."""
    first, *others = (group.manifest.options.get(option) for group in view.groups)
    return first if isinstance(first, str) and all(other == first for other in others) else ""


def _title(view: Overview) -> str:
    labels = _labels(view)
    others = len(labels) - _MAX_NAMED + 1
    agents = listed(labels if len(labels) <= _MAX_NAMED else [*labels[: _MAX_NAMED - 1], f"{others} others"])
    ids = {key.competition_id for key in view.planned}
    splits = list(dict.fromkeys(summary.split for summary in view.summaries if not summary.is_whole))
    if len(ids) == 1:
        where = next(iter(ids))
    elif any(summary.is_whole and summary.covers_split for summary in view.summaries):
        where = "all of MLE-bench"
    else:
        where = listed(splits)
    return ", ".join(filter(None, [f"{agents} on {where}", _dates(view)]))


def _dates(view: Overview) -> str:
    """Return for example ``1–8 March 2026``; empty if there are no dates."""
    texts = [text for record in view.records for text in (record.started_at, record.ended_at)]
    found: list[date] = []
    for text in texts or [group.manifest.created_at for group in view.groups]:
        with suppress(ValueError):
            found.append(date.fromisoformat(text[:10]))
    if not found:
        return ""
    first, last = min(found), max(found)
    end = f"{last.day} {last:%B} {last.year}"
    if first == last:
        return end
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{end}"
    return f"{first.day} {first:%B}{f' {first.year}' if first.year != last.year else ''} – {end}"


def _verdict(view: Overview) -> str:
    lines = headlines(view)
    if not view.records:
        return f"No run has finished yet ({pluralize(len(view.planned), 'planned run')})."
    several = Counter(line.label for line in lines)
    shown = [_result_of(line, with_split=several[line.label] > 1) for line in lines[:_MAX_NAMED]]
    if len(lines) > _MAX_NAMED:
        shown.append(f"{pluralize(len(lines) - _MAX_NAMED, 'more result')} below")
    if (overall := _overall(view)) is not None:
        shown.append(_compared(overall, of_several=len({line.label for line in lines}) > 2))
    return "; ".join(shown) + "."


def _result_of(line: SplitSummary, *, with_split: bool) -> str:
    """Return for example ``baseline earned a medal in 2 of 3 competitions (66.7 %, 95 % interval 21–94 %)``."""
    where = f" of {line.split}" if with_split else ""
    medals = sum(line.counts[outcome] for outcome in Outcome if outcome.medal)
    if line.is_provisional:
        if not line.results:
            return f"{line.label} has no result yet{f' on {line.split}' if with_split else ''}"
        runs, earned = pluralize(line.results, "run"), pluralize(medals, "medal") if medals else "no medal"
        return f"{line.label} has {earned} from the {runs}{where} with a result so far, and no complete seed"
    if line.competitions == line.seeds == 1:
        (id,), (seed,) = line.competition_ids, line.counted_seeds
        run = line.records.get((id, seed))  # none in a padded seed
        if run is not None and run.outcome.medal:
            return f"{line.label} earned a {run.outcome.medal} medal on {id}"
        how = "" if run is None or run.outcome is Outcome.no_medal else f" ({run.outcome.label})"
        return f"{line.label} earned no medal on {id}{how}"
    interval = line.interval
    between = "" if interval is None else f"95 % interval {interval.low:.0f}–{interval.high:.0f} %"
    competitions, mean = pluralize(line.competitions, "competition") + where, f"{line.any_medal.mean:.1f} %"
    runs = competitions if line.seeds == 1 else f"{competitions} × {line.seeds} seeds"
    if not line.any_medal.mean:
        return f"{line.label} earned no medal in {runs} ({between})"
    if line.seeds == 1:
        return f"{line.label} earned a medal in {sum(line.medals.values())} of {runs} ({mean}, {between})"
    return f"{line.label} earned a medal in {mean} of {runs} ({between})"


def _overall(view: Overview) -> SplitComparison | None:
    """Return the comparison of the two best agents on the whole benchmark, or on the only split."""
    whole = [comparison for comparison in view.comparisons if comparison.ours.is_whole]
    splits = {comparison.split for comparison in view.comparisons}
    best = set(list(dict.fromkeys(line.label for line in headlines(view)))[:2])
    for comparison in whole or (view.comparisons if len(splits) == 1 else ()):
        if {comparison.ours.label, comparison.theirs.label} == best and comparison.difference.competitions > 1:
            return comparison
    return None


def _compared(comparison: SplitComparison, *, of_several: bool) -> str:
    difference, p = comparison.difference, comparison.difference.adjusted_p_value
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
    names = (comparison.ours.label, comparison.theirs.label)
    if not difference.mean:
        return f"the rates of {listed(names)} are equal" if of_several else "their rates are equal"
    points = f"{abs(difference.mean):.1f} percentage points"
    if not comparison.is_conclusive:
        few = ", over few competitions" if difference.competitions < FEW else ""
        between = f" between {listed(names)}" if of_several else ""
        return f"a difference of {points}{between}, which may be due to chance ({shown}{few})"
    ahead, behind = names if difference.mean > 0 else names[::-1]
    return f"{ahead} is {points} ahead{f' of {behind}' if of_several else ''} ({shown})"


def _caveats(view: Overview) -> Iterator[str]:
    records = view.records
    for group in view.groups:
        for text in caveats(group):
            yield f"{group.name}: {text}" if len(view.groups) > 1 else text
    if missing := len(view.planned.keys() - {record.key for record in records}):
        yield f"{missing} of {pluralize(len(view.planned), 'planned run')} {have(missing)} no result yet."
    errors = sum(record.outcome is Outcome.error for record in records)
    if errors:
        yield f"{pluralize(errors, 'run')} {have(errors)} no result, because the harness or a grader failed."
    if records and errors < len(records) and not any(record.outcome.passed for record in records):
        yield "No run produced a valid submission."
    generated = {r.competition_id for r in records if r.synthetic_data or r.is_twin}
    different = {r.competition_id for r in records if r.data_verified is False} - generated
    if different:
        yield (
            f"The data of {len(different)} of {pluralize(len({r.competition_id for r in records}), 'competition')} is "
            "not the reference's (synthetic or modified), so these scores are not comparable with others."
        )
    if defects := {record.competition_id for record in records if record.report.grader_defect}:
        yield f"Defective graders: {listed(sorted(defects))}."
