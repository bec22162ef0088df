"""The statistics of a benchmark's results, on plain numbers. Rates, differences and intervals are in per cent."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, stdev, variance

LEVEL = 0.95
FEW = 10
"""The spread between fewer competitions than this says too little about that between others."""
DIFFERENCE = 5.0
"""Points: the difference between two agents that ``seeds_needed`` is for."""
POWER = 80.0
MOST_SEEDS = 9999
_ALMOST_NORMAL, _FAR, _NEAR = 1000, 30.0, 5.0


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
    """How one side's results differ from the other's, pair by pair (see ``paired_difference``)."""

    competitions: int
    runs: int
    """Pairs of runs: of the same competition and seed."""
    mean: float
    interval: Interval | None
    """The 95 % confidence interval over competitions. None for fewer than two, or equal differences."""
    seeds_interval: Interval | None
    """The same over seeds of these competitions. None where no competition has two pairs."""
    wins: int
    """Competitions on which ours has the better mean."""
    ties: int
    losses: int
    p_value: float
    """Of the sign test over competitions, two-sided."""


@dataclass(frozen=True)
class Variance:
    """The variance of one run's result, by its cause; None for a cause that cannot be seen (see ``split_variance``)."""

    competitions: float | None
    seeds: float | None
    rows: float | None

    @property
    def shares(self) -> dict[str, float]:
        """Each known cause's share of their sum, in per cent; empty for a single seed, and without any variance."""
        known = {name: own for name, own in vars(self).items() if own is not None}
        whole = sum(known.values()) if self.competitions is not None else 0.0
        return {name: 100 * own / whole for name, own in known.items()} if whole else {}


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


def mean_interval(values: Sequence[float], *, low: float = -math.inf, high: float = math.inf) -> Interval | None:
    """Student's t interval of the mean of independent values, one for each competition, within the bounds of a value.

    None for fewer than two values, or equal ones, which show nothing of the spread. Rates have ``share_interval``.
    Source: "Student", "The Probable Error of a Mean" (1908).

    >>> str(mean_interval([40, 50, 60]))  # 50 ± 4.303 · 10 / √3
    '[25.2, 74.8]'
    """
    if len(values) < 2 or not (error := stdev(values) / math.sqrt(len(values))):
        return None
    half = _t_quantile(len(values) - 1) * error
    return Interval(max(low, fmean(values) - half), min(high, fmean(values) + half))


def share_interval(rates: Sequence[float]) -> Interval | None:
    """The interval of a rate over competitions, from the rate of each in per cent; None without any.

    Wilson's interval of p over n = p(1 - p) / s² competitions, where s is the standard error of the mean of the
    rates. Of fewer than ``FEW``, n is their number.

    Sources: Wilson (1927); Kott and Carr, "Developing an Estimation Strategy for a Pesticide Data Program" (1997), for
    the effective number.

    >>> str(share_interval([100.0, 0.0, 100.0]))
    '[20.8, 93.9]'
    """
    if not rates:
        return None
    n, p = float(len(rates)), fmean(rates) / 100
    if len(rates) >= FEW and (error := stdev(rates) / 100 / math.sqrt(n)):
        n = max(n, p * (1 - p) / error**2)
    return wilson_interval(100 * p, n)


def wilson_interval(mean: float, n: float) -> Interval:
    """Wilson's score interval of a rate in per cent over ``n`` competitions.

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


def paired_difference(pairs: Sequence[Sequence[tuple[float, float]]]) -> PairedDifference:
    """Compare two sides; ``pairs`` has for each competition (ours, theirs) of each seed, at least one.

    The interval over seeds takes the competitions as given: with the pooled variance s² of a difference between two
    runs, the mean over C of them with k seeds has the variance s² / (C · k) and Σ(k - 1) degrees of freedom.
    Raises ValueError if there is no pair.
    """
    if not pairs or not all(pairs):
        raise ValueError("there is no pair to compare")
    by_run = [[our - their for our, their in own] for own in pairs]
    differences = [fmean(own) for own in by_run]
    mean = fmean(differences)
    wins = sum(difference > 0 for difference in differences)
    losses = sum(difference < 0 for difference in differences)
    noise = seed_variance(by_run)
    seeds_interval = None
    if noise:
        error = math.sqrt(noise * sum(1 / len(own) for own in by_run)) / len(by_run)
        half = _t_quantile(_freedom(by_run)) * error
        seeds_interval = Interval(max(-100.0, mean - half), min(100.0, mean + half))
    return PairedDifference(
        competitions=len(differences),
        runs=sum(map(len, by_run)),
        mean=mean,
        interval=mean_interval(differences, low=-100, high=100),
        seeds_interval=seeds_interval,
        wins=wins,
        ties=len(differences) - wins - losses,
        losses=losses,
        p_value=sign_test(wins, losses),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several tests, adjusted so that all claims at a level hold together with that level.

    Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def seed_variance(by_competition: Sequence[Sequence[float]]) -> float | None:
    """The variance between runs of the same competition, pooled over competitions (one-way analysis of variance).

    None where no competition has two runs.

    >>> seed_variance([[0, 100], [50, 50], [7]])
    2500.0
    """
    freedom = _freedom(by_competition)
    return sum(variance(own) * (len(own) - 1) for own in by_competition if len(own) > 1) / freedom if freedom else None


def split_variance(by_competition: Sequence[Sequence[float]], rows: float | None) -> Variance:
    """Split the variance of a run's result into competitions, seeds and test rows, by the method of moments.

    ``by_competition`` has each run's result by competition, ``rows`` the mean variance of a result if the test's rows
    were drawn again (see ``row_variance``). The expected variance of the competitions' means is competitions + rows +
    seeds / k. An estimate below zero is 0. A single seed or competition leaves the competitions' share unknown.

    Source: Searle, Casella and McCulloch, "Variance Components" (1992), chapter 3.
    """
    seeds = seed_variance(by_competition)
    if seeds is None or len(by_competition) < 2:
        return Variance(None, seeds, rows)
    of_means = variance([fmean(own) for own in by_competition])
    share = fmean(1 / len(own) for own in by_competition)
    return Variance(max(0.0, of_means - seeds * share - (rows or 0.0)), seeds, rows)


def power(noise: float, *, competitions: int, seeds: int, difference: float) -> float:
    """How likely the interval over seeds excludes 0 if two agents differ by so much on these competitions, in per cent.

    ``noise`` is the variance between seeds of both agents. The statistic of the paired t test over C competitions with
    k seeds is noncentral t, with the standard error √(2 · noise / (C · k)) and C · (k - 1) degrees of freedom. Raises
    ValueError for fewer than two seeds.

    Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences" (1988), chapter 2.
    """
    from scipy.special import nctdtr

    if seeds < 2:
        raise ValueError("a single seed does not show how much seeds differ")
    if not noise:
        return 100.0
    freedom = competitions * (seeds - 1)
    shift = abs(difference) / math.sqrt(2 * noise / (competitions * seeds))
    bound = _t_quantile(freedom)
    if freedom > _ALMOST_NORMAL or shift > _FAR:  # nctdtr fails on large arguments
        return 100 * (NormalDist().cdf(shift - bound) + NormalDist().cdf(-shift - bound))
    other_side = nctdtr(freedom, shift, -bound) if shift < _NEAR else 0.0  # nor can it give what is almost 0
    return float(100 * (1 - nctdtr(freedom, shift, bound) + other_side))


def seeds_needed(noise: float, *, competitions: int) -> int:
    """The least number of seeds, from 2 to ``MOST_SEEDS``, whose ``power`` to show ``DIFFERENCE`` is ``POWER``."""

    def reached(seeds: int) -> float:
        return power(noise, competitions=competitions, seeds=seeds, difference=DIFFERENCE)

    return 2 + bisect_left(range(2, MOST_SEEDS), POWER, key=reached)


def detectable(noise: float, *, competitions: int, seeds: int) -> float:
    """The least difference that so many seeds show with a power of ``POWER``, in points, to a tenth."""

    def reached(tenths: int) -> float:
        return power(noise, competitions=competitions, seeds=seeds, difference=tenths / 10)

    return (1 + bisect_left(range(1, 20_000), POWER, key=reached)) / 10


def influences(values: Mapping[str, float]) -> dict[str, float]:
    """How far the mean would move without each competition, the farthest first; empty for fewer than two.

    The mean of the others less that of all: (mean - value) / (n - 1).

    >>> influences({"a": 100, "b": 0, "c": 50})
    {'a': -25.0, 'b': 25.0, 'c': 0.0}
    """
    if len(values) < 2:
        return {}
    mean = fmean(values.values())
    moved = {id: (mean - value) / (len(values) - 1) for id, value in values.items()}
    return dict(sorted(moved.items(), key=lambda item: (-abs(item[1]), item[0])))


def _freedom(by_competition: Sequence[Sequence[float]]) -> int:
    return sum(len(own) - 1 for own in by_competition)


@cache
def _t_quantile(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
