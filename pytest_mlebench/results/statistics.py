"""The statistics of a benchmark's results, on plain numbers. Rates, differences and intervals are in per cent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

LEVEL = 0.95
RESAMPLES = 9999
FEW = 10
"""Fewer competitions than this are too few to be drawn from again and again."""


@dataclass(frozen=True)
class Rate:
    """A share of runs in per cent: the mean over seeds (NaN without a run), and its standard error.

    The standard error is None for a single seed, which shows nothing of the spread.
    """

    mean: float
    standard_error: float | None

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "-"
        return f"{self.mean:.1f} %{self.spread}"

    @property
    def spread(self) -> str:
        """The standard error as text; empty where there is none, or where the seeds agree.

        Seeds that agree say little about other competitions: an error of 0 would read as certainty.
        """
        return f" ± {self.standard_error:.1f}" if (self.standard_error or 0) >= 0.05 else ""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of ``LEVEL``."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class PairedDifference:
    """How one side's rates differ from the other's, pair by pair (see ``paired_difference``)."""

    pairs: int
    mean: float
    interval: Interval | None
    wins: int
    ties: int
    losses: int
    p_value: float
    """Of the sign test, two-sided."""


def rate(by_seed: Sequence[Sequence[bool]]) -> Rate:
    """The mean of the seeds' shares, and the sample standard deviation of these over √seeds.

    >>> str(rate([[True, False], [True, True]]))
    '75.0 % ± 25.0'
    """
    shares = [100 * sum(successes) / len(successes) for successes in by_seed if successes]
    if not shares:
        return Rate(math.nan, None)
    return Rate(fmean(shares), stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else None)


def pass_at_k(successes: Sequence[int], runs: int, k: int) -> float:
    """How likely at least one of k runs succeeds, in per cent, in the mean over competitions.

    ``successes`` has for each competition how many of its ``runs`` succeeded. Of the C(n, k) ways to draw k of n runs,
    C(n - c, k) miss all c successes: the unbiased estimator of Chen et al., "Evaluating Large Language Models Trained
    on Code" (2021), eq. 1. Raises ValueError unless 1 ≤ k ≤ runs.

    >>> pass_at_k([1, 0], runs=3, k=2)  # of 3 pairs of runs, 2 hold the one that succeeded
    33.333333333333336
    """
    if not 1 <= k <= runs:
        raise ValueError(f"pass@{k} cannot be estimated from {runs} runs")
    return 100 * fmean(1 - math.comb(runs - c, k) / math.comb(runs, k) for c in successes)


def bootstrap_interval(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
    """The percentile bootstrap interval of the mean: the means that similar competitions could have given.

    ``values`` has one rate, or difference, for each competition. The same values give the same interval. Percentiles
    rather than BCa: they stay in the range of the values and need no jackknife, which fails on nearly equal rates; in
    simulations of 15 to 75 competitions both contained the true rate equally often, in 92 to 95 of 100 cases.
    None where resampling shows nothing: fewer than two values, or equal values.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    """
    import numpy as np

    different, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    if len(different) < 2:
        return None
    # How often each value comes up among n draws with replacement is multinomial.
    n = len(values)
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=resamples)
    low, high = np.quantile(draws @ different / n, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def wilson_interval(mean: float, n: int) -> Interval:
    """Wilson's score interval of a rate in per cent over ``n`` competitions, for few of them or equal rates.

    Several seeds of a competition count as one, which makes the interval wider rather than narrower than it should be.
    Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference" (1927).

    >>> str(wilson_interval(200 / 3, 3)), str(wilson_interval(0, 22))
    ('[20.8, 93.9]', '[0.0, 14.9]')
    """
    p, z = mean / 100, NormalDist().inv_cdf((1 + LEVEL) / 2)
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + side * half) / (1 + z * z / n) for side in (-1, 1))
    return Interval(100 * max(0.0, low), 100 * min(1.0, high))


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of the exact sign test: how likely so uneven a split of wins and losses is by chance.

    Ties are left out. With a single run on each side this is McNemar's exact test.

    >>> sign_test(5, 0)
    0.0625
    """
    n, fewer = wins + losses, min(wins, losses)
    return float(min(1, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n))


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> PairedDifference:
    """Compare two sides on the same competitions, in the same order; raises ValueError if there are none.

    Pairing removes the differences between competitions, which are most of the spread.
    """
    differences = [our - their for our, their in zip(ours, theirs, strict=True)]
    if not differences:
        raise ValueError("there is no pair to compare")
    wins = sum(difference > 0 for difference in differences)
    losses = sum(difference < 0 for difference in differences)
    return PairedDifference(
        pairs=len(differences),
        mean=fmean(differences),
        interval=bootstrap_interval(differences),
        wins=wins,
        ties=len(differences) - wins - losses,
        losses=losses,
        p_value=sign_test(wins, losses),
    )
