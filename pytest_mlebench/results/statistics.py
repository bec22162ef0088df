"""Statistics of benchmark results, on plain numbers. Rates, differences and intervals are in per cent."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, stdev, variance

LEVEL = 0.95
FEW = 10
"""With fewer competitions, their sample variance is not a reliable estimate."""
DIFFERENCE = 5.0
"""The difference between two agents, in percentage points, that ``seeds_needed`` is calculated for."""
POWER = 80.0
MOST_SEEDS = 9999
_NEARLY_NORMAL, _LARGE_SHIFT, _SMALL_SHIFT = 1000, 30.0, 5.0


@dataclass(frozen=True)
class Rate:
    """A share of runs in per cent: the mean over seeds (NaN if there are no runs), and its standard error.

    The standard error is None for a single seed.
    """

    mean: float
    standard_error: float | None

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "-"
        return f"{self.mean:.1f} %{self.spread}"

    @property
    def spread(self) -> str:
        """The standard error as text; empty if there is none or if all seeds agree.

        Showing "± 0.0" would suggest certainty, but equal seeds say little about other competitions.
        """
        return f" ± {self.standard_error:.1f}" if (self.standard_error or 0) >= 0.05 else ""


@dataclass(frozen=True)
class Interval:
    """A confidence interval at level ``LEVEL``."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two agents' results on the same competitions and seeds (see ``paired_difference``)."""

    competitions: int
    runs: int
    """Number of pairs of runs with the same competition and seed."""
    mean: float
    interval: Interval | None
    """95 % confidence interval over competitions. None if there are fewer than two or all differences are equal."""
    seeds_interval: Interval | None
    """95 % confidence interval over seeds of these competitions. None if their variance is zero or unknown."""
    wins: int
    """Number of competitions on which our mean is better."""
    ties: int
    losses: int
    p_value: float
    """From the two-sided sign test over competitions."""
    adjusted_p_value: float
    """The same, adjusted if this is one of several comparisons (see ``holm``)."""


@dataclass(frozen=True)
class Variance:
    """The variance of one run's result by cause; None if it cannot be estimated (see ``split_variance``)."""

    competitions: float | None
    seeds: float | None
    rows: float | None

    @property
    def shares(self) -> dict[str, float]:
        """Each known cause's share of the total, in per cent; empty for a single seed or zero variance."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        total = sum(known.values()) if self.competitions is not None else 0.0
        return {name: 100 * value / total for name, value in known.items()} if total else {}


def rate(by_seed: Sequence[Sequence[bool]]) -> Rate:
    """The mean of the seeds' success rates, and its standard error (sample standard deviation / √seeds).

    >>> str(rate([[True, False], [True, True]]))
    '75.0 % ± 25.0'
    """
    shares = [100 * sum(successes) / len(successes) for successes in by_seed if successes]
    if not shares:
        return Rate(math.nan, None)
    return Rate(fmean(shares), stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else None)


def pass_at_k(successes: Sequence[int], runs: int, k: int) -> float:
    """The probability that at least one of k runs succeeds, in per cent, averaged over competitions.

    ``successes`` has, for each competition, how many of its ``runs`` succeeded. Of the C(n, k) ways to draw k of n
    runs, C(n - c, k) miss all c successes. This is the unbiased estimator of Chen et al., "Evaluating Large Language
    Models Trained on Code" (2021), eq. 1. Raises ValueError unless 1 ≤ k ≤ runs.

    >>> pass_at_k([1, 0], runs=3, k=2)  # 2 of the 3 pairs of runs include the successful one
    33.333333333333336
    """
    if not 1 <= k <= runs:
        raise ValueError(f"pass@{k} cannot be estimated from {runs} runs")
    return 100 * fmean(1 - math.comb(runs - c, k) / math.comb(runs, k) for c in successes)


def mean_interval(values: Sequence[float], *, low: float = -math.inf, high: float = math.inf) -> Interval | None:
    """Student's t interval of the mean of independent values, one per competition, clipped to ``low`` and ``high``.

    None if there are fewer than two values or all are equal. For rates, use ``share_interval``.
    Source: "Student", "The Probable Error of a Mean" (1908).

    >>> str(mean_interval([40, 50, 60]))  # 50 ± 4.303 · 10 / √3
    '[25.2, 74.8]'
    """
    if len(values) < 2 or not (error := stdev(values) / math.sqrt(len(values))):
        return None
    half = _t_quantile(len(values) - 1) * error
    return Interval(max(low, fmean(values) - half), min(high, fmean(values) + half))


def share_interval(rates: Sequence[float]) -> Interval | None:
    """The confidence interval of a rate over competitions, from each one's rate in per cent; None if there are none.

    Wilson's interval of p with the effective sample size n = p(1 - p) / s², where s is the standard error of the mean
    rate. n is at least the number of competitions, and equals it for fewer than ``FEW``.

    Sources: Wilson (1927); for the effective size, Kott and Carr, "Developing an Estimation Strategy for a Pesticide
    Data Program" (1997).

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
    """The two-sided p-value of the exact sign test: the probability that chance splits wins and losses this unevenly.

    Ties are ignored. With a single run on each side, this is McNemar's exact test.

    >>> sign_test(5, 0)
    0.0625
    """
    n, fewer = wins + losses, min(wins, losses)
    return float(min(1, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n))


def paired_difference(pairs: Sequence[Sequence[tuple[float, float]]]) -> PairedDifference:
    """Compare two agents; ``pairs`` has, for each competition, the tuple (ours, theirs) of each seed.

    The interval over seeds treats the competitions as fixed: with the pooled variance s² of a difference between two
    runs, the mean over C competitions with k seeds has variance s² / (C · k) and Σ(k - 1) degrees of freedom.
    Raises ValueError if ``pairs`` is empty or a competition has no pair.
    """
    if not pairs or not all(pairs):
        raise ValueError("no pairs to compare")
    by_run = [[our - their for our, their in runs] for runs in pairs]
    differences = [fmean(runs) for runs in by_run]
    mean = fmean(differences)
    wins = sum(difference > 0 for difference in differences)
    losses = sum(difference < 0 for difference in differences)
    noise = seed_variance(by_run)
    seeds_interval = None
    if noise:
        error = math.sqrt(noise * sum(1 / len(runs) for runs in by_run)) / len(by_run)
        half = _t_quantile(_degrees_of_freedom(by_run)) * error
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
        p_value=(p_value := sign_test(wins, losses)),
        adjusted_p_value=p_value,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several tests for multiple comparisons (family-wise error rate).

    Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def seed_variance(by_competition: Sequence[Sequence[float]]) -> float | None:
    """The variance between runs of the same competition, pooled over competitions (one-way analysis of variance).

    None if no competition has two runs.

    >>> seed_variance([[0, 100], [50, 50], [7]])
    2500.0
    """
    dof = _degrees_of_freedom(by_competition)
    return sum(variance(runs) * (len(runs) - 1) for runs in by_competition if len(runs) > 1) / dof if dof else None


def split_variance(by_competition: Sequence[Sequence[float]], rows: float | None) -> Variance:
    """Split the variance of a run's result into competitions, seeds and test rows, by the method of moments.

    ``by_competition`` has the runs' results by competition. ``rows`` is the mean variance of a result if the test rows
    were sampled again (see ``row_variance``). The expected variance of the competitions' means is competitions + rows +
    seeds / k. Negative estimates become 0. With a single seed or competition, the competitions' variance is unknown.

    Source: Searle, Casella and McCulloch, "Variance Components" (1992), chapter 3.
    """
    seeds = seed_variance(by_competition)
    if seeds is None or len(by_competition) < 2:
        return Variance(None, seeds, rows)
    of_means = variance([fmean(runs) for runs in by_competition])
    share = fmean(1 / len(runs) for runs in by_competition)
    return Variance(max(0.0, of_means - seeds * share - (rows or 0.0)), seeds, rows)


def power(noise: float, *, competitions: int, seeds: int, difference: float) -> float:
    """The probability, in per cent, that the interval over seeds excludes 0 if two agents differ by ``difference``.

    ``noise`` is the variance between seeds, the same for both agents. The paired t statistic over C competitions with
    k seeds is noncentral t, with standard error √(2 · noise / (C · k)) and C · (k - 1) degrees of freedom. Raises
    ValueError if there are fewer than two seeds.

    Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences" (1988), chapter 2.
    """
    from scipy.special import nctdtr

    if seeds < 2:
        raise ValueError("a single seed gives no variance between seeds")
    if not noise:
        return 100.0
    dof = competitions * (seeds - 1)
    shift = abs(difference) / math.sqrt(2 * noise / (competitions * seeds))
    bound = _t_quantile(dof)
    if dof > _NEARLY_NORMAL or shift > _LARGE_SHIFT:  # nctdtr fails on large arguments
        return 100 * (NormalDist().cdf(shift - bound) + NormalDist().cdf(-shift - bound))
    other_tail = nctdtr(dof, shift, -bound) if shift < _SMALL_SHIFT else 0.0  # nctdtr also fails for results near 0
    return float(100 * (1 - nctdtr(dof, shift, bound) + other_tail))


def seeds_needed(noise: float, *, competitions: int) -> int:
    """The minimum number of seeds, from 2 to ``MOST_SEEDS``, that detect ``DIFFERENCE`` with power ``POWER``."""

    def power_with(seeds: int) -> float:
        return power(noise, competitions=competitions, seeds=seeds, difference=DIFFERENCE)

    return 2 + bisect_left(range(2, MOST_SEEDS), POWER, key=power_with)


def detectable(noise: float, *, competitions: int, seeds: int) -> float:
    """The minimum difference, in percentage points to one decimal, that this many seeds detect with ``POWER``."""

    def power_for(tenths: int) -> float:
        return power(noise, competitions=competitions, seeds=seeds, difference=tenths / 10)

    return (1 + bisect_left(range(1, 20_000), POWER, key=power_for)) / 10


def influences(values: Mapping[str, float]) -> dict[str, float]:
    """How far the mean moves if each competition is left out, largest move first; empty for fewer than two.

    The mean of the others minus the mean of all is (mean - value) / (n - 1).

    >>> influences({"a": 100, "b": 0, "c": 50})
    {'a': -25.0, 'b': 25.0, 'c': 0.0}
    """
    if len(values) < 2:
        return {}
    mean = fmean(values.values())
    moved = {id: (mean - value) / (len(values) - 1) for id, value in values.items()}
    return dict(sorted(moved.items(), key=lambda item: (-abs(item[1]), item[0])))


def _degrees_of_freedom(by_competition: Sequence[Sequence[float]]) -> int:
    return sum(len(runs) - 1 for runs in by_competition)


@cache
def _t_quantile(dof: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(dof, (1 + LEVEL) / 2))
