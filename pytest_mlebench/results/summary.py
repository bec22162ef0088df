"""Summaries of run groups: medal rates by split and category, mean ± standard error over complete seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pytest_mlebench.catalog.catalogue import BENCHMARK, default_catalogue
from pytest_mlebench.catalog.competition import is_twin_label, split_and_version, split_label
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results.statistics import Interval, Rate, mean_interval, pass_at_k, rate, share_interval

Measure = Literal["any_medal", "gold", "silver", "bronze", "percentile"]
RATES: Mapping[str, str] = {
    "any_medal": "any_medal",
    "gold": "gold_medal",
    "silver": "silver_medal",
    "bronze": "bronze_medal",
    "above_median": "above_median",
    "valid": "valid_submission",
    "submitted": "submission_exists",
}
"""The rates of a summary by name, and what a run's report calls each."""
SPLIT_ORDER = ("smoke", "dev", "low", "medium", "high", "all")


@dataclass(frozen=True, kw_only=True)
class SplitSummary:
    """The results of an agent's runs on a split, or on a category within it.

    A seed is complete when each of the competitions has a result; an ``error`` is none. Rates are over
    ``counted_seeds``: the complete ones, or all seeds if missing results were padded with failures. Without any, rates
    are of the results that there are (``is_provisional``) and cannot be compared.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> (summary,) = summarise([read_group(Path("reports/first"))])
    >>> summary.agent, summary.split, summary.results, summary.any_medal.mean
    ('dummy', 'smoke', 3, 0.0)
    """

    label: str
    """The agent, with its run group where several groups have the same agent."""
    group: str
    folder: Path
    """The run group's name and folder."""
    agent: str
    split: str
    category: str | None = None
    competition_ids: tuple[str, ...]
    counted_seeds: tuple[int, ...]
    left_out_seeds: tuple[int, ...] = ()
    padded_seeds: tuple[int, ...] = ()
    results: int
    """Runs that have a result, in whatever seed."""
    missing: int
    """Runs that have none: never recorded, or an ``error`` (these are ``counts[Outcome.error]``)."""
    counts: Mapping[Outcome, int]
    """Runs by outcome, over all seeds."""
    contaminated: tuple[str, ...] = ()
    """Competitions whose answers are publicly known, and the rate of any medal without these."""
    any_medal_without: Rate | None = None
    indicative: tuple[str, ...] = ()
    """Competitions whose medals only indicate what they would be on Kaggle's leaderboard."""
    unverified: tuple[str, ...] = ()
    """Competitions with a result on data that was not verified against the reference's checksums."""
    firmness: Mapping[str, int] = field(default_factory=dict)
    """Medals of all seeds by ``Report.firmness``."""
    records: Mapping[tuple[str, int], RunRecord] = field(default_factory=dict, repr=False)
    """The runs that have a result, by competition and seed."""
    any_medal: Rate
    gold: Rate
    silver: Rate
    bronze: Rate
    above_median: Rate
    valid: Rate
    submitted: Rate

    @property
    def is_whole(self) -> bool:
        """Whether it sums up other splits: ``all``."""
        return split_and_version(self.split)[0] == "all"

    @property
    def competitions(self) -> int:
        return len(self.competition_ids)

    @property
    def seeds(self) -> int:
        return len(self.counted_seeds)

    @property
    def is_provisional(self) -> bool:
        """Whether no seed could be counted."""
        return not self.counted_seeds

    @property
    def covers_split(self) -> bool:
        """Whether these are all competitions of low, medium, high or all, as in the published results."""
        if self.split not in (*BENCHMARK, "all"):
            return False
        return {competition.id for competition in default_catalogue().split(self.split)} == set(self.competition_ids)

    @cached_property
    def medals(self) -> Mapping[str, int]:
        """Counted seeds that earned any medal, by competition."""
        return {id: sum(value > 0 for value in own) for id, own in self.values("any_medal").items()}

    @property
    def medal_rates(self) -> dict[str, float]:
        """The share of the counted seeds that earned any medal, in per cent, by competition."""
        return {id: 100 * count / self.seeds for id, count in self.medals.items()}

    @cached_property
    def interval(self) -> Interval | None:
        """The interval of the any-medal rate over competitions (``share_interval``); None where no seed is counted."""
        return share_interval(list(self.medal_rates.values()))

    @cached_property
    def percentiles(self) -> dict[str, float]:
        """The mean percentile of the teams over counted seeds, by competition; not of those where it is unknown."""
        return {id: fmean(own) for id, own in self.values("percentile").items()}

    @property
    def percentile(self) -> float | None:
        """The mean percentile over competitions: how many of a hundred teams the agent leaves behind or equals.

        A run without a valid submission leaves nobody behind: 0. None where it is known of no competition.
        """
        return fmean(self.percentiles.values()) if self.percentiles else None

    @cached_property
    def percentile_interval(self) -> Interval | None:
        """Student's t interval over competitions."""
        return mean_interval(list(self.percentiles.values()), low=0, high=100)

    def values(self, measure: Measure) -> dict[str, tuple[float, ...]]:
        """Each counted run's result by competition, by seed; of competitions where all are known."""
        found = {id: [self.value(measure, id, seed) for seed in self.counted_seeds] for id in self.competition_ids}
        known = {id: tuple(own for own in runs if own is not None) for id, runs in found.items()}
        return {id: own for id, own in known.items() if own and len(own) == self.seeds}

    def value(self, measure: Measure, id: str, seed: int) -> float | None:
        """A run's result on a scale of 100: whether it earned the medal, or its percentile; None where unknown.

        A run without a result is a failure in a padded seed.
        """
        run = self.records.get((id, seed))
        if run is None:
            return 0.0 if seed in self.padded_seeds and id in self.competition_ids else None
        if measure != "percentile":
            return 100.0 * _earned(run, RATES[measure])
        return run.report.percentile if run.score is not None and run.report.valid_submission else 0.0

    @property
    def pass_at_k(self) -> tuple[float, ...]:
        """pass@1, pass@2, … up to the number of counted seeds: any medal in at least one of k runs, in per cent."""
        medals = list(self.medals.values())
        return tuple(pass_at_k(medals, self.seeds, k) for k in range(1, self.seeds + 1))

    @property
    def caution(self) -> str:
        """What keeps the rates from meaning what medals on Kaggle do, and how firm these are; empty if nothing does."""
        found = []
        if self.any_medal_without is not None:
            count = pluralize(len(self.contaminated), "contaminated competition")
            names = ", ".join(self.contaminated)
            found.append(f"any medal {self.any_medal_without} without the {count} ({names})")
        if self.indicative:
            found.append(f"medals are indicative of {', '.join(self.indicative)}: the test differs from Kaggle's")
        if self.firmness.get("firm") or self.firmness.get("not firm"):
            firm, all_medals = self.firmness.get("firm", 0), sum(self.firmness.values())
            unknown = f" ({self.firmness['unknown']} unknown)" if self.firmness.get("unknown") else ""
            found.append(f"{firm} of {pluralize(all_medals, 'medal')} firm{unknown}")
        return "; ".join(found)

    @property
    def note(self) -> str:
        """Which runs the rates leave out or count as failures; empty if there are none."""
        errors = self.counts[Outcome.error]
        lack = f"{pluralize(self.missing, 'run')} of {self.results + self.missing} without a result"
        lack += f", {errors} of them with an error of the harness or a grader" if errors else ""
        if self.is_provisional:
            return f"provisional: no seed is complete ({lack}); rates are of the runs that have one"
        if self.padded_seeds:
            return f"{_named(self.padded_seeds)} padded with failures ({lack})"
        if self.left_out_seeds:
            return f"{_named(self.left_out_seeds)} incomplete and left out ({lack})"
        return ""


def summarise(
    groups: Sequence[RunGroup], *, pad_missing: bool = False, by_category: bool = False
) -> list[SplitSummary]:
    """Summaries by group, agent and split; ``all`` is added where more than one of low, medium and high is planned.

    With ``by_category`` they are by category instead: within ``all`` where there is one, else within each split.
    With ``pad_missing`` a run without a result counts as a failure, else its seed is left out.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> [(summary.label, str(summary.any_medal)) for summary in summarise([read_group(Path("reports/first"))])]
    [('dummy', '0.0 %')]
    """
    names = labels(groups)
    return [
        _summary(names[group.folder, agent], group, agent, split, category, ids, pad_missing)
        for group in groups
        for agent in group.agents
        for split, category, ids in _parts(group, agent, by_category)
    ]


def grader_defects(records: Iterable[RunRecord]) -> list[str]:
    """A sentence for each competition whose grader raised, which voids the result of a run."""
    by_competition: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.report.grader_defect:
            by_competition.setdefault(record.competition_id, []).append(record)
    return [
        f"the grader of {id} is defective: {pluralize(len(own), 'run')} could not be graded ({own[-1].report.error})"
        for id, own in sorted(by_competition.items())
    ]


def split_rank(split: str) -> tuple[int, str]:
    """A sort key: the benchmark's splits in their order, then others by name."""
    name = split_and_version(split)[0]
    return SPLIT_ORDER.index(name) if name in SPLIT_ORDER else len(SPLIT_ORDER), split


def by_split(summaries: Iterable[SplitSummary]) -> list[SplitSummary]:
    """By split, then category, so that several agents stand side by side."""
    return sorted(summaries, key=lambda own: (split_rank(own.split), own.category or ""))


def labels(groups: Sequence[RunGroup]) -> dict[tuple[Path, str], str]:
    """An agent's name in reports, by its group's folder and its id: its id, with the group if others have it too."""
    agents = list(chain.from_iterable(group.agents for group in groups))
    names = [group.name for group in groups]
    return {
        (group.folder, agent): agent
        if agents.count(agent) == 1
        else f"{agent} in {group.name if names.count(group.name) == 1 else group.folder}"
        for group in groups
        for agent in group.agents
    }


def _parts(group: RunGroup, agent: str, by_category: bool) -> Iterator[tuple[str, str | None, tuple[str, ...]]]:
    """Split, category and competitions of each summary."""
    ids = sorted({key.competition_id for key in (*group.planned, *group.runs) if key.agent == agent})
    splits: dict[str, list[str]] = {}
    for id in ids:
        splits.setdefault(group.splits_and_categories[id].split, []).append(id)
    parts: list[str] = []
    for is_twin in (False, True):
        own = [s for s in splits if split_and_version(s)[0] in BENCHMARK and is_twin_label(s) is is_twin]
        if len(own) > 1:
            whole = split_label("all", group.version, is_twin=is_twin)
            splits[whole] = [id for id in ids if group.splits_and_categories[id].split in own]
            parts += own
    for split in sorted(splits, key=split_rank):
        if not by_category:
            yield split, None, tuple(splits[split])
        elif split not in parts:
            categories: dict[str, list[str]] = {}
            for id in splits[split]:
                categories.setdefault(group.splits_and_categories[id].category, []).append(id)
            yield from ((split, category, tuple(own)) for category, own in sorted(categories.items()))


def _summary(
    label: str,
    group: RunGroup,
    agent: str,
    split: str,
    category: str | None,
    ids: tuple[str, ...],
    pad_missing: bool,
) -> SplitSummary:
    wanted = set(ids)
    own = [key for key in group.planned | group.runs.keys() if key.agent == agent and key.competition_id in wanted]
    runs = [group.runs[key] for key in own if key in group.runs]
    results = {(run.seed, run.competition_id): run for run in runs if run.outcome is not Outcome.error}
    seeds = sorted({key.seed for key in own})
    incomplete = tuple(seed for seed in seeds if any((seed, id) not in results for id in ids))
    counted_seeds = tuple(seed for seed in seeds if pad_missing or seed not in incomplete)
    contaminated = sorted({run.competition_id for run in results.values() if run.report.contaminated})
    indicative = sorted({run.competition_id for run in results.values() if run.report.thresholds == "indicative"})

    def share(key: str, ids: Sequence[str] = ids) -> Rate:
        by_seed = [[results.get((seed, id)) for id in ids] for seed in counted_seeds]
        every: list[RunRecord | None] = [run for (_, id), run in results.items() if id in ids]
        return rate([[_earned(run, key) for run in runs] for runs in by_seed or [every]])

    clean = [id for id in ids if id not in contaminated]
    rates: Any = {name: share(key) for name, key in RATES.items()}
    return SplitSummary(
        label=label,
        group=group.name,
        folder=group.folder,
        agent=agent,
        split=split,
        category=category,
        competition_ids=ids,
        counted_seeds=counted_seeds,
        left_out_seeds=() if pad_missing else incomplete,
        padded_seeds=incomplete if pad_missing else (),
        results=len(results),
        missing=len(seeds) * len(ids) - len(results),
        contaminated=tuple(contaminated),
        any_medal_without=share("any_medal", clean) if contaminated and clean else None,
        indicative=tuple(indicative),
        unverified=tuple(sorted({run.competition_id for run in results.values() if run.data_verified is not True})),
        firmness=Counter(run.report.firmness for run in results.values() if run.report.any_medal),
        counts={outcome: sum(run.outcome is outcome for run in runs) for outcome in Outcome},
        records={(id, seed): run for (seed, id), run in results.items()},
        **rates,
    )


def _earned(run: RunRecord | None, key: str) -> bool:
    return run is not None and bool(getattr(run.report, key))


def _named(seeds: Iterable[int]) -> str:
    names = [str(seed) for seed in seeds]
    return f"seed{'' if len(names) == 1 else 's'} {', '.join(names)} {'is' if len(names) == 1 else 'are'}"
