"""What run groups came to, in a title and a few sentences, which every format of the report begins with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from pytest_mlebench.io.units import have, listed, pluralize
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.results.findings import caveats
from pytest_mlebench.results.overview import Overview, SplitComparison
from pytest_mlebench.results.statistics import FEW
from pytest_mlebench.results.summary import SplitSummary

_NAMED = 3
"""So many agents are named; more are counted."""


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What stands at the top of a report: texts that are untrusted, as agents' names are.

    ``caveats`` are sentences that a reader of the verdict must know: runs without a result, data of another kind.
    """

    title: str
    note: str
    verdict: str
    caveats: Sequence[str]

    @property
    def sentences(self) -> list[str]:
        return [*filter(None, [self.note]), self.verdict, *self.caveats]


def heading(view: Overview, *, title: str | None = None, note: str | None = None) -> Heading:
    """The top of a report; title and note are those given, else those that the group's sessions were given."""
    return Heading(
        title=title or _given(view, "--title") or _title(view),
        note=note or _given(view, "--note"),
        verdict=_verdict(view),
        caveats=list(_caveats(view)),
    )


def headlines(view: Overview) -> list[SplitSummary]:
    """Each agent's summary of the whole benchmark, or else of each split; the best agent first."""
    whole = {summary.label for summary in view.summaries if summary.is_whole}
    chosen = [summary for summary in view.summaries if summary.is_whole or summary.label not in whole]
    best: dict[str, float] = {}
    for summary in chosen:
        mean = summary.any_medal.mean
        best[summary.label] = max(best.get(summary.label, -1.0), -1.0 if math.isnan(mean) else mean)
    return sorted(chosen, key=lambda summary: -best[summary.label])


def _given(view: Overview, option: str) -> str:
    """What the sessions of the groups were given, if they agree."""
    first, *others = (group.manifest.options.get(option) for group in view.groups)
    return first if isinstance(first, str) and all(other == first for other in others) else ""


def _title(view: Overview) -> str:
    labels = list(dict.fromkeys(summary.label for summary in view.summaries))
    agents = listed(labels if len(labels) <= _NAMED else [*labels[: _NAMED - 1], f"{len(labels) - _NAMED + 1} others"])
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
    """For example ``1–8 March 2026``; empty if nothing is dated."""
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
        return f"No run has finished yet, of {pluralize(len(view.planned), 'planned run')}."
    several = Counter(line.label for line in lines)
    shown = [_result(line, with_split=several[line.label] > 1) for line in lines[:_NAMED]]
    if len(lines) > _NAMED:
        shown.append(f"{pluralize(len(lines) - _NAMED, 'more result')} below")
    if (overall := _overall(view)) is not None:
        shown.append(_compared(overall, of_several=len({line.label for line in lines}) > 2))
    return "; ".join(shown) + "."


def _result(line: SplitSummary, *, with_split: bool) -> str:
    """For example ``baseline earned a medal in 2 of 3 competitions (66.7 %, 95 % interval 21–94 %)``."""
    where = f" of {line.split}" if with_split else ""
    medals = sum(line.counts[outcome] for outcome in Outcome if outcome.medal)
    if line.is_provisional:
        if not line.results:
            return f"{line.label} has no result yet{f' on {line.split}' if with_split else ''}"
        runs, earned = pluralize(line.results, "run"), pluralize(medals, "medal") if medals else "no medal"
        return f"{line.label} has {earned} from the {runs}{where} with a result so far, and no complete seed"
    if line.competitions == line.seeds == 1:
        (outcome,) = [o for o in Outcome if line.counts[o]] if sum(line.counts.values()) == 1 else [Outcome.error]
        if outcome.medal:
            return f"{line.label} earned a {outcome.medal} medal on {line.competition_ids[0]}"
        how = "" if outcome in (Outcome.no_medal, Outcome.error) else f" ({outcome.label})"
        return f"{line.label} earned no medal on {line.competition_ids[0]}{how}"
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
    """The comparison over the whole benchmark, or on the only split; of several agents that of the two best."""
    whole = [comparison for comparison in view.comparisons if comparison.ours.is_whole]
    splits = {comparison.split for comparison in view.comparisons}
    best = set(list(dict.fromkeys(line.label for line in headlines(view)))[:2])
    for comparison in whole or (view.comparisons if len(splits) == 1 else ()):
        if {comparison.ours.label, comparison.theirs.label} == best and comparison.difference.competitions > 1:
            return comparison
    return None


def _compared(comparison: SplitComparison, *, of_several: bool) -> str:
    difference, p = comparison.difference, comparison.adjusted_p
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
    names = (comparison.ours.label, comparison.theirs.label)
    if not difference.mean:
        return f"the rates of {listed(names)} are equal" if of_several else "their rates are equal"
    points = f"{abs(difference.mean):.1f} percentage points"
    if not comparison.is_conclusive:
        few = ", over few competitions" if difference.competitions < FEW else ""
        between = f" between {listed(names)}" if of_several else ""
        return f"a difference of {points}{between}, which chance may explain ({shown}{few})"
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
        yield f"{pluralize(errors, 'run')} {have(errors)} no result, since the harness or a grader failed."
    if records and errors < len(records) and not any(record.outcome.passed for record in records):
        yield "No run left a valid submission."
    generated = {r.competition_id for r in records if r.synthetic_data or r.twin}
    different = {r.competition_id for r in records if r.data_verified is False} - generated
    if different:
        yield (
            f"The data of {len(different)} of {pluralize(len({r.competition_id for r in records}), 'competition')} is "
            "not the reference's (synthetic, or changed): these scores do not compare with those of others."
        )
    if defects := {record.competition_id for record in records if record.report.grader_defect}:
        yield f"Defective graders: {listed(sorted(defects))}."
