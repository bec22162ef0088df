"""The rows of a leaderboard: an agent's results on a split, with every reason why they are not comparable.

Figures were recomputed during verification, or agree with recomputed ones. Values that verification cannot check are
shown as the maker's statement (hardware, times), or not shown (costs and models without a ledger that agrees).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pytest_mlebench.catalog.competition import split_and_version
from pytest_mlebench.defaults import TIME_LIMIT
from pytest_mlebench.extras.bundles.card import ALWAYS, Card, CheckResult
from pytest_mlebench.io.units import format_dollars, format_duration, format_size, listed, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import model_differences
from pytest_mlebench.records.outcome import TWIN
from pytest_mlebench.results.findings import of_verdicts
from pytest_mlebench.results.overview import PublishedResult, spending
from pytest_mlebench.results.profile import ProfileLine, State, fairness_profile, setting_differences
from pytest_mlebench.results.statistics import Interval, Rate, share_interval
from pytest_mlebench.results.summary import Measure, SplitSummary, split_rank, summarise
from pytest_mlebench.runs.regrade import Regrader

LEAST_SEEDS = 3
MEDALS: tuple[Measure, ...] = ("any_medal", "gold", "silver", "bronze")
_UNLIKE = ("network", "test-set feedback", "sessions")
"""Lines of the fairness profile, besides time, hardware and models, that must be canonical for comparable rows."""
_STATED = ("external knowledge", "provider tools", "models called")
"""Lines that make a row not comparable only if they state a difference, since it is unknown what models know."""
_SHOWN_MODELS = 5
_TEXT = 300


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A rate or mean in percent, with its 95 % interval over competitions, or a standard error over seeds."""

    mean: float
    interval: Interval | None = None
    standard_error: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.1f} %"

    @property
    def spread(self) -> str:
        """The interval or error, such as ``21–94 %`` or ``± 1.2``; empty if unknown."""
        if self.interval is not None:
            return f"{self.interval.low:.0f}–{self.interval.high:.0f} %"
        return "" if self.standard_error is None else f"± {self.standard_error:.1f}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One agent on one split. ``rank`` is None if the row is not ranked.

    ``reasons`` say why it is not comparable, and ``remarks`` what else a reader must know. ``not_checked`` lists what
    verification did not check, in addition to what it never can. A row without a ``digest`` was published elsewhere.
    """

    rank: int | None = None
    agent: str
    split: str
    rates: Mapping[str, Figure]
    """Rates by the names in ``MEDALS``. Published results only have ``any_medal``."""
    without_contaminated: Figure | None = None
    contaminated: tuple[str, ...] = ()
    percentile: Figure | None = None
    """Mean percentile among the leaderboards' teams."""
    competitions: int | None = None
    seeds: int | None = None
    hours: float | None = None
    time: str = ""
    hardware: str = ""
    models: str = ""
    cost: float | None = None
    """US dollars per run."""
    cost_text: str = ""
    version: str = "1"
    data: str = ""
    date: str = ""
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    verification: str = ""
    audit: str = ""
    """What the audit of this row's runs found."""
    profile: tuple[ProfileLine, ...] = ()
    not_checked: tuple[str, ...] = ()
    digest: str = ""
    report: str = ""
    """Fragment of the report's address that shows this agent's runs."""

    @property
    def is_reported(self) -> bool:
        """Whether it was published elsewhere and not verified here."""
        return not self.digest

    @property
    def status(self) -> str:
        """One word: ``ranked``, ``reported`` or ``apart`` (not comparable)."""
        return "apart" if self.reasons else "reported" if self.is_reported else "ranked"


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A bundle without rows, and why. ``digest`` is empty if the file could not be read. All texts are shortened."""

    file: str
    digest: str = ""
    run_group: str = ""
    verdict: str
    reasons: tuple[str, ...] = ()


def rows_of(group: RunGroup, card: Card, graders: Regrader) -> Iterator[Row]:
    """Yield the rows of a bundle's run group, after its ``card`` was found to allow them."""
    checked = {check.name for check in card.checks if check.result is CheckResult.verified}
    verdicts = {} if card.findings is None else card.findings.verdicts
    for summary in summarise([group]):
        part = _part(group, summary)
        profile = fairness_profile(part, card.findings)
        data = _data(part, graders)
        hours, time = _time(part)
        models, cost, cost_text = _models(part, summary, profile, is_checked="models" in checked)
        yield Row(
            agent=summary.agent[:_TEXT],
            split=summary.split,
            rates={name: _medal_rate(summary, name) for name in MEDALS},
            without_contaminated=None
            if summary.any_medal_without is None or summary.is_provisional
            else _medal_rate(summary, "any_medal", summary.contaminated),
            contaminated=summary.contaminated,
            percentile=_percentile(summary),
            competitions=summary.competitions,
            seeds=summary.seeds,
            hours=hours,
            time=time,
            hardware=_hardware(part),
            models=models,
            cost=cost,
            cost_text=cost_text,
            version=group.version.removeprefix("v"),
            data=data,
            date=max((record.ended_at[:10] for record in part.records), default=""),
            reasons=tuple(dict.fromkeys(t[:_TEXT] for t in _reasons(part, summary, card, profile, data, graders))),
            remarks=tuple(_remarks(summary, card)),
            verification=card.headline,
            audit=of_verdicts(verdicts.get(record.run_id) for record in part.records),
            profile=tuple(replace(line, detail=line.detail[:_TEXT]) for line in profile),
            not_checked=tuple(text for text in card.not_checked if text not in ALWAYS),
            digest=card.digest,
        )


def published_rows(results: Iterable[PublishedResult]) -> Iterator[Row]:
    """Yield a row for each split of each published result, as reported by others and not verified."""
    for result in results:
        reasons = [result.note or "it is not comparable"] if not result.comparable else []
        if result.hours is None or result.hours * 3600 != TIME_LIMIT:
            limit = "an unknown time limit" if result.hours is None else f"{result.hours:g} h"
            reasons.append(f"time: {limit} instead of {format_duration(TIME_LIMIT)}")
        for split, rate in result.rates.items():
            yield Row(
                agent=result.agent,
                split=split,
                rates={"any_medal": Figure(mean=rate.mean, standard_error=rate.standard_error)},
                hours=result.hours,
                time="unknown" if result.hours is None else f"{result.hours:g} h",
                models=result.llm,
                data="real",
                date=result.date,
                reasons=tuple(reasons),
                remarks=("seeds that were incomplete were padded with failures",)
                if result.padded_incomplete_seeds
                else (),
                verification="reported, not verified",
            )


def ranked(rows: Iterable[Row]) -> list[Row]:
    """Sort rows by split. Within a split, comparable rows come first, with ranks, then reported ones, then the others.

    Rank 1 has the best any-medal rate. Rates that are equal to two decimals share a rank.
    """
    order = ("ranked", "reported", "apart")
    found = sorted(
        rows,
        key=lambda row: (
            split_rank(row.split), order.index(row.status), -_sortable(row), row.agent, row.date, row.digest
        ),
    )  # fmt: skip
    rates = [(row.split, _sortable(row)) for row in found if row.status == "ranked"]
    return [
        replace(row, rank=1 + sum(split == row.split and rate > _sortable(row) for split, rate in rates))
        if row.status == "ranked"
        else row
        for row in found
    ]


def _sortable(row: Row) -> float:
    mean = row.rates["any_medal"].mean
    return -1.0 if math.isnan(mean) else round(mean, 2)


def _part(group: RunGroup, summary: SplitSummary) -> RunGroup:
    """Return the group with only the runs of one row, their plan and their agent's settings."""
    ids = set(summary.competition_ids)
    settings = group.manifest.settings
    agents = {id: definition for id, definition in settings.get("agents", {}).items() if id == summary.agent}
    manifest = replace(
        group.manifest,
        settings={**settings, "agents": agents},
        runs=tuple(r for r in group.manifest.runs if r.agent == summary.agent and r.competition_id in ids),
    )
    records = tuple(r for r in group.records if r.agent == summary.agent and r.competition_id in ids)
    return replace(group, records=records, manifest=manifest)


def _medal_rate(summary: SplitSummary, name: Measure, without: Collection[str] = ()) -> Figure:
    """Return a rate over competitions, with an interval like that of any medal (see ``SplitSummary.interval``)."""
    if summary.is_provisional:
        rate: Rate = getattr(summary, name)
        return Figure(mean=rate.mean)
    values = summary.values(name)
    means = [fmean(values[id]) for id in summary.competition_ids if id not in without]
    return Figure(mean=fmean(means), interval=share_interval(means))


def _percentile(summary: SplitSummary) -> Figure | None:
    """Return the percentile; None if no seed is counted, or a leaderboard has no percentiles."""
    mean = summary.percentile
    if mean is None or summary.is_provisional or len(summary.percentiles) < summary.competitions:
        return None
    return Figure(mean=mean, interval=summary.percentile_interval)


def _time(group: RunGroup) -> tuple[float | None, str]:
    """Return the longest time limit in hours, and all time limits in words."""
    found = sorted({float(record.limits.get("time_limit") or 0) for record in group.records} - {0.0})
    return (found[-1] / 3600 if found else None), listed([format_duration(limit) for limit in found])


def _hardware(group: RunGroup) -> str:
    """Return the machines of the group's sessions, as its maker states them."""
    machines = dict.fromkeys(
        f"{machine.cpus} × {machine.cpu[:60]}, {format_size(machine.memory)}, "
        + (", ".join(f"{count} × {name[:60]}" for name, count in sorted(machine.gpus.items())) or "no GPU")
        for session in group.manifest.sessions
        if (machine := session.hardware) is not None
    )
    return "; ".join(list(machines)[:3])


def _models(
    group: RunGroup, summary: SplitSummary, profile: Sequence[ProfileLine], *, is_checked: bool
) -> tuple[str, float | None, str]:
    """Return the models, the cost per run, and that cost as text, as shown by ledgers that agree with the records."""
    if not is_checked:
        return "models not checked", None, "not checked"
    names = sorted({name[:100] for record in group.records for name in record.models_called})
    shown = ", ".join([*names[:_SHOWN_MODELS], *(["…"] if len(names) > _SHOWN_MODELS else [])])
    past = any(line.name == "models called" and line.state is State.unknown for line in profile)
    models = f"{shown}; perhaps others" if past and shown else shown or ("models unknown" if past else "no models")
    spent = spending(replace(record, split=summary.split) for record in group.records)
    if not spent:
        return models, None, "unknown" if past else "–"
    return models, spent[0].cost_per_run, format_dollars(spent[0].cost_per_run)


def _data(group: RunGroup, graders: Regrader) -> str:
    """Return ``twin`` if the records say so; else ``real``, ``synthetic`` or ``not verified``, according to data on
    this machine with the digests of the runs."""
    if any(record.is_twin for record in group.records):
        return TWIN
    found = [graders.dataset(record) for record in {record.competition_id: record for record in group.records}.values()]
    if any(dataset is not None and dataset.is_synthetic for dataset in found):
        return "synthetic"
    return "real" if all(dataset is not None and dataset.is_verified for dataset in found) else "not verified"


def _reasons(
    group: RunGroup, summary: SplitSummary, card: Card, profile: Sequence[ProfileLine], data: str, graders: Regrader
) -> Iterator[str]:
    """Yield why a row is not comparable with others."""
    if card.result is not CheckResult.verified:
        yield f"unverified: {listed([c.name for c in card.checks if c.result is card.result])} cannot be checked"
    if data != "real":
        yield f"data: {data}"
    missing = _split_ids(summary.split, graders) - set(summary.competition_ids)
    if missing:
        whole = len(missing) + summary.competitions
        yield f"split: {summary.competitions} of {pluralize(whole, 'competition')}"
    if summary.seeds < LEAST_SEEDS:
        yield f"seeds: {summary.seeds} complete, but at least {LEAST_SEEDS} are needed"
    lines = {line.name: line for line in profile}
    if lines["time"].state is not State.canonical:
        yield f"time: {lines['time'].detail}"
    setting = setting_differences(group) or group.manifest.canonical
    if setting is None:
        yield "setting: the machines and limits were not recorded"
    else:
        yield from (f"setting: {text}" for text in setting.differences if not text.startswith("time limit"))
    yield from (f"setting: {text}" for text in model_differences(group.manifest.settings))
    for line in profile:
        expected = {State.canonical} if line.name in _UNLIKE else {State.canonical, State.unknown}
        if line.name in (*_UNLIKE, *_STATED) and line.state not in expected:
            yield f"{line.name}: {line.detail}"


def _split_ids(split: str, graders: Regrader) -> set[str]:
    """Return the competitions of a split, given the label that results have."""
    name = split_and_version(split)[0]
    chosen = graders.catalogue.split("all") if name == "all" else [c for c in graders.catalogue if c.split == name]
    return {competition.id for competition in chosen}


def _remarks(summary: SplitSummary, card: Card) -> Iterator[str]:
    yield from filter(None, [summary.note])
    if summary.indicative:
        yield f"medals are indicative on {listed(summary.indicative)}: the test differs from Kaggle's"
    yield from card.warnings
