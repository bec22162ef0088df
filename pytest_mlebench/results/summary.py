"""Summary statistics of runs: medal rates by split, as mean ± standard error over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pytest_mlebench.results.record import OUTCOMES, RunRecord

SPLIT_ORDER = ("smoke", "dev", "low", "medium", "high", "all")
_BENCHMARK = {"low", "medium", "high"}


@dataclass(frozen=True)
class Rate:
    """A share of runs in per cent: the mean over seeds, and its standard error (None for a single seed)."""

    mean: float
    standard_error: float | None

    def __str__(self) -> str:
        return f"{self.mean:.1f} %" + ("" if self.standard_error is None else f" ± {self.standard_error:.1f}")


@dataclass(frozen=True)
class SplitSummary:
    """What an agent's runs on a split came to. ``counts`` is by outcome, over all seeds."""

    agent: str
    split: str
    competitions: int
    seeds: int
    counts: dict[str, int]
    any_medal: Rate
    gold: Rate
    above_median: Rate
    valid: Rate


def rate(by_seed: Sequence[Sequence[bool]]) -> Rate:
    """The mean of the seeds' shares, and the sample standard deviation of these over √seeds.

    >>> str(rate([[True, False], [True, True]]))
    '75.0 % ± 25.0'
    """
    shares = [100 * sum(successes) / len(successes) for successes in by_seed if successes]
    if not shares:
        return Rate(0.0, None)
    mean = sum(shares) / len(shares)
    if len(shares) < 2:
        return Rate(mean, None)
    variance = sum((share - mean) ** 2 for share in shares) / (len(shares) - 1)
    return Rate(mean, math.sqrt(variance / len(shares)))


def summarise(records: Iterable[RunRecord]) -> list[SplitSummary]:
    """Summaries by agent and split; ``all`` is added where more than one of low, medium and high was run."""
    ordered = sorted(records, key=lambda record: (record.agent, SPLIT_ORDER.index(record.split)))
    summaries = []
    for agent, own in groupby(ordered, key=lambda record: record.agent):
        runs = list(own)
        groups = {split: list(group) for split, group in groupby(runs, key=lambda record: record.split)}
        if len(_BENCHMARK & groups.keys()) > 1:
            groups["all"] = [record for record in runs if record.split in _BENCHMARK]
        summaries += [_summary(agent, split, group) for split, group in groups.items()]
    return summaries


def _summary(agent: str, split: str, records: Sequence[RunRecord]) -> SplitSummary:
    seeds = sorted({record.seed for record in records})

    def share(key: str) -> Rate:
        return rate([[bool(getattr(r.report, key, False)) for r in records if r.seed == seed] for seed in seeds])

    return SplitSummary(
        agent=agent,
        split=split,
        competitions=len({record.competition_id for record in records}),
        seeds=len(seeds),
        counts={name: sum(record.outcome == name for record in records) for name in OUTCOMES},
        any_medal=share("any_medal"),
        gold=share("gold_medal"),
        above_median=share("above_median"),
        valid=share("valid_submission"),
    )
