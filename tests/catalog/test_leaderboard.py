import math
from dataclasses import FrozenInstanceError
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_mlebench.catalog.schema import Leaderboard, medal_ranks
from pytest_mlebench.defaults import MEDALS

NAN = math.nan
scores = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("teams", "gold", "silver", "bronze"),
    [
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (5, 1, 1, 2),
        (9, 1, 1, 3),
        (10, 1, 2, 4),
        (19, 1, 3, 7),
        (20, 2, 4, 8),
        (50, 5, 10, 20),
        (90, 9, 18, 36),
        (99, 9, 19, 39),
        (100, 10, 20, 40),
        (101, 10, 20, 40),
        (249, 10, 49, 99),
        (250, 10, 50, 100),
        (499, 10, 50, 100),
        (500, 11, 50, 100),
        (999, 11, 50, 100),
        (1000, 12, 50, 100),
        (1001, 12, 50, 100),
        (1499, 12, 74, 149),
        (1500, 13, 75, 150),
        (4539, 19, 226, 453),
    ],
)
def test_the_last_ranks_with_a_medal_follow_kaggles_rules(teams: int, gold: int, silver: int, bronze: int) -> None:
    assert medal_ranks(teams) == {"gold": gold, "silver": silver, "bronze": bronze}


@given(st.integers(1, 100_000))
def test_better_medals_are_for_fewer_teams(teams: int) -> None:
    ranks = medal_ranks(teams)
    assert 1 <= ranks["gold"] <= ranks["silver"] <= ranks["bronze"] <= teams


def test_a_leaderboard_has_a_whole_number_of_teams() -> None:
    with pytest.raises(TypeError):
        medal_ranks(10.0)  # type: ignore[arg-type]


def test_a_leaderboard_is_immutable_and_names_its_source() -> None:
    made = Leaderboard.from_scores([1.0, 2.0], lower_is_better=False, source="a file")
    assert made.source == "a file"
    assert Leaderboard.from_scores([1.0], lower_is_better=True).source == "" == board().source
    with pytest.raises(FrozenInstanceError):
        setattr(made, "gold", 3.0)  # noqa: B010 - mypy knows that it cannot be
    with pytest.raises(TypeError):
        Leaderboard(2, False, 1.0, 1.0, 1.0, 1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("strange", [math.inf, -math.inf, math.nan])
def test_teams_without_a_finite_score_are_rejected(strange: float) -> None:
    with pytest.raises(ValueError, match="must be a finite number"):
        Leaderboard.from_scores([1.0, strange], lower_is_better=False)


@pytest.mark.parametrize("lower", [False, True])
def test_a_score_earns_a_medal_at_its_threshold_and_beyond(lower: bool) -> None:
    worse, same, better = (1 - score if lower else score for score in (0.625, 0.75, 0.875))
    made = board(lower=lower, silver=0.75)
    assert made.earns("silver", same) is True
    assert made.earns("silver", better) is True
    assert made.earns("silver", worse) is False


@pytest.mark.parametrize("teams", [0, -3])
def test_a_leaderboard_without_teams_has_no_ranks(teams: int) -> None:
    with pytest.raises(ValueError, match="at least one team"):
        medal_ranks(teams)


def board(*, lower: bool = False, **changes: float) -> Leaderboard:
    """Gold from 0.9, silver from 0.8, bronze from 0.7, median 0.5. Reversed if ``lower``."""
    values: dict[str, Any] = {"gold": 0.9, "silver": 0.8, "bronze": 0.7, "median": 0.5, **changes}
    if lower:
        values = {name: round(1 - value, 5) for name, value in values.items()}
    return Leaderboard(teams=1000, lower_is_better=lower, **values)


@pytest.mark.parametrize(
    ("score", "medal"),
    [
        (math.inf, "gold"),
        (1.0, "gold"),
        (0.9, "gold"),
        (0.89999, "silver"),
        (0.8, "silver"),
        (0.79999, "bronze"),
        (0.7, "bronze"),
        (0.69999, None),
        (-math.inf, None),
        (NAN, None),
        (None, None),
    ],
)
def test_a_score_as_good_as_the_threshold_earns_the_medal(score: float | None, medal: str | None) -> None:
    assert board().medal(score) == medal
    assert board(lower=True).medal(None if score is None else round(1 - score, 5)) == medal


def test_the_best_medal_counts_if_thresholds_are_equal() -> None:
    crowded = board(gold=1.0, silver=1.0, bronze=1.0)
    assert crowded.medal(1.0) == "gold"
    assert crowded.medal(0.99999) is None


@pytest.mark.parametrize(
    ("score", "above"), [(0.50001, True), (0.5, False), (0.49999, False), (NAN, False), (None, False)]
)
def test_above_the_median_is_strict(score: float | None, above: bool) -> None:
    assert board().is_above_median(score) is above
    assert board(lower=True).is_above_median(None if score is None else round(1 - score, 5)) is above


def test_thresholds_are_available_by_medal() -> None:
    assert [board().threshold(medal) for medal in MEDALS] == [0.9, 0.8, 0.7]


@pytest.mark.parametrize("lower", [True, False])
def test_thresholds_are_the_scores_at_the_medals_ranks(lower: bool) -> None:
    ranked = [float(k) for k in range(1, 251)]  # rank k has score k, or -k where higher is better
    made = Leaderboard.from_scores([k if lower else -k for k in reversed(ranked)], lower_is_better=lower)
    sign = 1 if lower else -1
    assert (made.gold, made.silver, made.bronze) == (sign * 10, sign * 50, sign * 100)
    assert made.median == sign * 125.5
    assert made.teams == 250
    assert made.medal(sign * 10.0) == "gold"
    assert made.medal(sign * 10.00001) == "silver"
    assert made.medal(sign * 100.00001) is None


def test_the_median_of_an_odd_number_is_the_middle_score() -> None:
    assert Leaderboard.from_scores([5, 1, 2], lower_is_better=True).median == 2


def test_a_single_team_earns_gold_with_any_score() -> None:
    made = Leaderboard.from_scores([0.3], lower_is_better=False)
    assert (made.medal(0.3), made.medal(0.29999)) == ("gold", None)
    assert made.percentiles == (0.3,) * 100


def test_percentiles_are_the_scores_at_their_share_of_the_ranks() -> None:
    made = Leaderboard.from_scores(range(1, 251), lower_is_better=True)
    # 1 % of 250 is rank 2.5, rounded up to 3; 50 % is rank 125; 99 % is rank 247.5, rounded up to 248
    assert [made.percentiles[p - 1] for p in (1, 50, 99, 100)] == [3, 125, 248, 250]


@pytest.mark.parametrize(
    ("score", "percentile"),
    [(0, 99), (3, 99), (3.1, 98), (125, 50), (125.1, 49), (248, 1), (250, 0), (251, 0), (NAN, None), (None, None)],
)
def test_a_percentile_is_the_share_of_teams_beaten(score: float | None, percentile: float | None) -> None:
    lower = Leaderboard.from_scores(range(1, 251), lower_is_better=True)
    higher = Leaderboard.from_scores([-k for k in range(1, 251)], lower_is_better=False)
    assert lower.percentile(score) == percentile
    assert higher.percentile(None if score is None else -score) == percentile


def test_without_percentiles_there_is_none() -> None:
    assert board().percentile(0.5) is None


@settings(deadline=None)
@given(st.lists(scores, min_size=1, max_size=300), scores, scores, st.booleans())
def test_a_better_score_never_has_a_worse_result(teams: list[float], one: float, other: float, lower: bool) -> None:
    made = Leaderboard.from_scores(teams, lower_is_better=lower)
    better, worse = sorted([one, other], reverse=not lower)
    place = {"gold": 3, "silver": 2, "bronze": 1, None: 0}
    assert place[made.medal(better)] >= place[made.medal(worse)]
    assert made.is_above_median(better) >= made.is_above_median(worse)
    assert 0 <= (made.percentile(worse) or 0) <= (made.percentile(better) or 0) <= 99


@settings(deadline=None)
@given(st.lists(scores, min_size=1, max_size=300), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_teams_does_not_matter(teams: list[float], lower: bool, random: Random) -> None:
    shuffled = random.sample(teams, len(teams))
    made, again = (Leaderboard.from_scores(values, lower_is_better=lower) for values in (teams, shuffled))
    assert made == again
