"""Summaries of run groups: medal rates by split and category, mean ± standard error over complete seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pytest_mlebench.catalog.catalogue import BENCHMARK, default_catalogue
from pytest_mlebench.catalog.competition import is_twin_label, split_and_version, split_label
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.group import UNKNOWN, RunGroup, SplitAndCategory
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
"""Names of a summary's rates, with the matching attribute of a run's report."""
SPLIT_ORDER = ("smoke", "dev", "low", "medium", "high", "all")


@dataclass(frozen=True, kw_only=True)
class SplitSummary:
    """The results of an agent's runs on a split, or on a category within it.

    A seed is complete if every competition has a result; an ``error`` is not a result. Rates are over
    ``counted_seeds``: the complete seeds, or all seeds if missing results were padded with failures. If there are none,
    rates are over the available results (``is_provisional``) and cannot be compared.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> (summary,) = summarise([read_group(Path("reports/first"))])
    >>> summary.agent, summary.split, summary.results, summary.any_medal.mean
    ('dummy', 'smoke', 3, 0.0)
    """

    label: str
    """The agent's name, with its run group if several groups have the same agent."""
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
    """Number of runs with a result, over all seeds."""
    missing: int
    """Number of runs without a result: not recorded, or an ``error`` (counted in ``counts[Outcome.error]``)."""
    counts: Mapping[Outcome, int]
    """Number of runs by outcome, over all seeds."""
    contaminated: tuple[str, ...] = ()
    """Competitions whose answers are publicly known."""
    any_medal_without: Rate | None = None
    """The any-medal rate without the contaminated competitions."""
    indicative: tuple[str, ...] = ()
    """Competitions whose test set differs from Kaggle's, so medals only approximate those of its leaderboard."""
    unverified: tuple[str, ...] = ()
    """Competitions with a result on data that was not verified against the reference checksums."""
    firmness: Mapping[str, int] = field(default_factory=dict)
    """Number of medals by ``Report.firmness``, over all seeds."""
    records: Mapping[tuple[str, int], RunRecord] = field(default_factory=dict, repr=False)
    """The runs with a result, by competition and seed."""
    any_medal: Rate
    gold: Rate
    silver: Rate
    bronze: Rate
    above_median: Rate
    valid: Rate
    submitted: Rate

    @property
    def is_whole(self) -> bool:
        """Whether this summarises the whole benchmark (``all``)."""
        return split_and_version(self.split)[0] == "all"

    @property
    def competitions(self) -> int:
        return len(self.competition_ids)

    @property
    def seeds(self) -> int:
        return len(self.counted_seeds)

    @property
    def is_provisional(self) -> bool:
        """Whether no seed is counted."""
        return not self.counted_seeds

    @property
    def covers_split(self) -> bool:
        """Whether this covers every competition of low, medium, high or all, like the published results."""
        if self.split not in (*BENCHMARK, "all"):
            return False
        return {competition.id for competition in default_catalogue().split(self.split)} == set(self.competition_ids)

    @cached_property
    def medals(self) -> Mapping[str, int]:
        """Number of counted seeds that earned any medal, by competition."""
        return {id: sum(value > 0 for value in values) for id, values in self.values("any_medal").items()}

    @property
    def medal_rates(self) -> dict[str, float]:
        """Percentage of counted seeds that earned any medal, by competition."""
        return {id: 100 * count / self.seeds for id, count in self.medals.items()}

    @cached_property
    def interval(self) -> Interval | None:
        """Interval of the any-medal rate over competitions (``share_interval``); None if no seed is counted."""
        return share_interval(list(self.medal_rates.values()))

    @cached_property
    def percentiles(self) -> dict[str, float]:
        """Mean percentile over counted seeds, by competition; omits competitions for which it is unknown."""
        return {id: fmean(values) for id, values in self.values("percentile").items()}

    @property
    def percentile(self) -> float | None:
        """Mean percentile over competitions: the percentage of teams that the agent beats or equals.

        A run without a valid submission counts as 0. None if the percentile is unknown for every competition.
        """
        return fmean(self.percentiles.values()) if self.percentiles else None

    @cached_property
    def percentile_interval(self) -> Interval | None:
        """Student's t interval over competitions."""
        return mean_interval(list(self.percentiles.values()), low=0, high=100)

    def values(self, measure: Measure) -> dict[str, tuple[float, ...]]:
        """Counted results by competition, in seed order; omits competitions with an unknown result."""
        found = {id: [self.value(measure, id, seed) for seed in self.counted_seeds] for id in self.competition_ids}
        known = {id: tuple(value for value in values if value is not None) for id, values in found.items()}
        return {id: values for id, values in known.items() if values and len(values) == self.seeds}

    def value(self, measure: Measure, id: str, seed: int) -> float | None:
        """A run's result from 0 to 100: 100 if it earned the medal, or its percentile; None if unknown.

        In a padded seed, a run without a result counts as 0.
        """
        run = self.records.get((id, seed))
        if run is None:
            return 0.0 if seed in self.padded_seeds and id in self.competition_ids else None
        if measure != "percentile":
            return 100.0 * _earned(run, RATES[measure])
        if run.score is None or not run.report.valid_submission:
            return 0.0
        percentile = run.report.percentile
        return percentile if percentile is not None and 0 <= percentile <= 100 else None

    @property
    def pass_at_k(self) -> tuple[float, ...]:
        """pass@k for k from 1 to the number of counted seeds: any medal in at least one of k runs, in per cent."""
        medals = list(self.medals.values())
        return tuple(pass_at_k(medals, self.seeds, k) for k in range(1, self.seeds + 1))

    @property
    def caution(self) -> str:
        """Why medals may differ from Kaggle's, and how many are firm; empty if there is nothing to say."""
        found = []
        if self.any_medal_without is not None:
            count = pluralize(len(self.contaminated), "contaminated competition")
            names = ", ".join(self.contaminated)
            found.append(f"any medal {self.any_medal_without} without the {count} ({names})")
        if self.indicative:
            names = ", ".join(self.indicative)
            found.append(f"medals on {names} are only indicative: the test set differs from Kaggle's")
        if self.firmness.get("firm") or self.firmness.get("not firm"):
            firm, all_medals = self.firmness.get("firm", 0), sum(self.firmness.values())
            unknown = f" ({self.firmness['unknown']} unknown)" if self.firmness.get("unknown") else ""
            found.append(f"{firm} of {pluralize(all_medals, 'medal')} firm{unknown}")
        return "; ".join(found)

    @property
    def note(self) -> str:
        """Which runs the rates omit or count as failures; empty if none."""
        errors = self.counts[Outcome.error]
        missing = f"{pluralize(self.missing, 'run')} of {self.results + self.missing} without a result"
        missing += f", {errors} of them due to an error in the harness or a grader" if errors else ""
        if self.is_provisional:
            return f"provisional: no seed is complete ({missing}); rates are over the runs that have one"
        if self.padded_seeds:
            return f"{_seeds_are(self.padded_seeds)} padded with failures ({missing})"
        if self.left_out_seeds:
            return f"{_seeds_are(self.left_out_seeds)} incomplete and left out ({missing})"
        return ""


def summarise(
    groups: Sequence[RunGroup], *, pad_missing: bool = False, by_category: bool = False
) -> list[SplitSummary]:
    """Summarise by group, agent and split; ``all`` is added if more than one of low, medium and high is planned.

    With ``by_category``, each summary is of a category: within ``all`` if there is one, else within each split.
    With ``pad_missing``, a run without a result counts as a failure; otherwise its seed is left out.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> [(summary.label, str(summary.any_medal)) for summary in summarise([read_group(Path("reports/first"))])]
    [('dummy', '0.0 %')]
    """
    names = labels(groups)
    return [
        _summary(names[group.folder, agent], group, agent, part, pad_missing)
        for group in groups
        for agent in group.agents
        for part in _parts(group, agent, by_category)
    ]


def grader_defects(records: Iterable[RunRecord]) -> list[str]:
    """Return a sentence for each competition whose grader raised an exception, so that runs have no result."""
    by_competition: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.report.grader_defect:
            by_competition.setdefault(record.competition_id, []).append(record)
    return [
        f"the grader of {id} is defective: {pluralize(len(runs), 'run')} could not be graded ({runs[-1].report.error})"
        for id, runs in sorted(by_competition.items())
    ]


def split_rank(split: str) -> tuple[int, str]:
    """Sort key: the benchmark's splits in their usual order, then others by name."""
    name = split_and_version(split)[0]
    return SPLIT_ORDER.index(name) if name in SPLIT_ORDER else len(SPLIT_ORDER), split


def by_split(summaries: Iterable[SplitSummary]) -> list[SplitSummary]:
    """Sort by split, then category, so that agents on the same split are adjacent."""
    return sorted(summaries, key=lambda summary: (split_rank(summary.split), summary.category or ""))


def labels(groups: Sequence[RunGroup]) -> dict[tuple[Path, str], str]:
    """Agents' names in reports, by group folder and agent id: the id, with the group if several have the agent.

    A name that another agent already has gets a number.
    """
    agents = Counter(chain.from_iterable(group.agents for group in groups))
    names = Counter(group.name for group in groups)
    found: dict[tuple[Path, str], str] = {}
    used = set[str]()
    for group in groups:
        for agent in group.agents:
            name = f"{agent} in {group.name if names[group.name] == 1 else group.folder}"
            wanted = agent if agents[agent] == 1 else name
            found[group.folder, agent] = next(
                label for label in chain([wanted], (f"{wanted} ({k})" for k in count(2))) if label not in used
            )
            used.add(found[group.folder, agent])
    return found


_Part = tuple[str, str | None, tuple[str, ...]]
"""The split, category and competition ids of a summary."""


def splits_and_categories(group: RunGroup) -> Mapping[str, SplitAndCategory]:
    """Split and category of each competition. Manifests of version 0.1 lack them, so the catalogue adds them."""
    catalogue = default_catalogue(version=group.version)
    return {
        id: SplitAndCategory(catalogue[id].split_label, catalogue[id].category)
        if found == UNKNOWN and id in catalogue
        else found
        for id, found in group.splits_and_categories.items()
    }


def _parts(group: RunGroup, agent: str, by_category: bool) -> Iterator[_Part]:
    ids = sorted({key.competition_id for key in (*group.planned, *group.runs) if key.agent == agent})
    known, splits = splits_and_categories(group), dict[str, list[str]]()
    for id in ids:
        splits.setdefault(known[id].split, []).append(id)
    parts: list[str] = []
    for is_twin in (False, True):
        found = [s for s in splits if split_and_version(s)[0] in BENCHMARK and is_twin_label(s) is is_twin]
        if len(found) > 1:
            whole = split_label("all", group.version, is_twin=is_twin)
            splits[whole] = [id for id in ids if known[id].split in found]
            parts += found
    for split in sorted(splits, key=split_rank):
        if not by_category:
            yield split, None, tuple(splits[split])
        elif split not in parts:
            categories: dict[str, list[str]] = {}
            for id in splits[split]:
                categories.setdefault(known[id].category, []).append(id)
            yield from ((split, category, tuple(found)) for category, found in sorted(categories.items()))


def _summary(label: str, group: RunGroup, agent: str, part: _Part, pad_missing: bool) -> SplitSummary:
    split, category, ids = part
    wanted = set(ids)
    known = group.planned | group.runs.keys()
    keys = sorted(key for key in known if key.agent == agent and key.competition_id in wanted)
    runs = [group.runs[key] for key in keys if key in group.runs]
    results = {(run.seed, run.competition_id): run for run in runs if run.outcome is not Outcome.error}
    seeds = sorted({key.seed for key in keys})
    incomplete = tuple(seed for seed in seeds if any((seed, id) not in results for id in ids))
    counted_seeds = tuple(seed for seed in seeds if pad_missing or seed not in incomplete)
    contaminated = sorted({run.competition_id for run in results.values() if run.report.contaminated})
    indicative = sorted({run.competition_id for run in results.values() if run.report.thresholds == "indicative"})

    def rate_of(key: str, ids: Sequence[str] = ids) -> Rate:
        by_seed = [[results.get((seed, id)) for id in ids] for seed in counted_seeds]
        all_runs: list[RunRecord | None] = [run for (_, id), run in results.items() if id in ids]
        return rate([[_earned(run, key) for run in runs] for runs in by_seed or [all_runs]])

    clean = [id for id in ids if id not in contaminated]
    rates: Any = {name: rate_of(key) for name, key in RATES.items()}
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
        any_medal_without=rate_of("any_medal", clean) if contaminated and clean else None,
        indicative=tuple(indicative),
        unverified=tuple(sorted({run.competition_id for run in results.values() if run.data_verified is not True})),
        firmness=Counter(run.report.firmness for run in results.values() if run.report.any_medal),
        counts={outcome: sum(run.outcome is outcome for run in runs) for outcome in Outcome},
        records={(id, seed): run for (seed, id), run in results.items()},
        **rates,
    )


def _earned(run: RunRecord | None, key: str) -> bool:
    return run is not None and bool(getattr(run.report, key))


def _seeds_are(seeds: Iterable[int]) -> str:
    names = [str(seed) for seed in seeds]
    return f"seed{'' if len(names) == 1 else 's'} {', '.join(names)} {'is' if len(names) == 1 else 'are'}"
