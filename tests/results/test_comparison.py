"""The rank of a run among the published results, and comparisons of two agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Canonical, Manifest, PlannedRun
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.formats import to_json
from pytest_mlebench.reports.sections import rate_sections
from pytest_mlebench.reports.tables import paired_sections, shortened
from pytest_mlebench.results.overview import (
    Standing,
    compare,
    flags,
    mean_scores,
    not_ranked,
    overview,
    published_results,
    standings,
)
from pytest_mlebench.results.summary import labels, summarise
from tests.groups import record_with

CANONICAL = Canonical(is_canonical=True)
IDS = {split: [competition.id for competition in default_catalogue().split(split)] for split in ("low", "all")}


def group(
    outcomes: Mapping[str, str],
    *,
    seeds: int = 3,
    agent: str = "agent",
    name: str = "g",
    canonical: Canonical | None = CANONICAL,
) -> RunGroup:
    """A group in which every seed has the same outcomes, by competition."""
    records = [
        record_with(default_catalogue()[id], outcome, agent=agent, seed=seed)
        for id, outcome in outcomes.items()
        for seed in range(seeds)
    ]
    return RunGroup(folder=Path(name), records=tuple(records), manifest=Manifest(canonical=canonical))


def with_medals(split: str, medals: int, **options: Any) -> RunGroup:
    """A group over a whole split with the given number of medals in each seed."""
    return group({id: "gold" if k < medals else "no_medal" for k, id in enumerate(IDS[split])}, **options)


def standing_of(group: RunGroup, *, pad_missing: bool = False) -> Standing:
    (standing,) = standings(summarise([group], pad_missing=pad_missing), [group])
    return standing


def test_the_rank_is_among_the_comparable_published_results() -> None:
    # 26 of 75 are 34.67 %: below R&D-Agent with gpt-5 (35.11), above Neo (34.22).
    standing = standing_of(with_medals("all", 26))
    assert standing.summary.any_medal.mean == pytest.approx(34.667, abs=1e-3)
    assert (standing.better[0].agent, standing.better[0].llm, standing.worse[0].agent) == (
        "R&D-Agent",
        "gpt-5",
        "Neo multi-agent",
    )
    above = [result for result in published_results() if result.comparable and result.rates["all"].mean > 34.667]
    assert standing.rank == len(above) + 1 == 18
    assert standing.of == sum(result.comparable for result in published_results()) + 1
    assert all(result.comparable for result in (*standing.better, *standing.worse))


@pytest.mark.parametrize(("medals", "rank"), [(75, 1), (0, 29)])
def test_the_best_and_the_worst_also_have_a_rank(medals: int, rank: int) -> None:
    standing = standing_of(with_medals("all", medals))
    assert (standing.rank, standing.of) == (rank, 29)


def test_equal_numbers_of_medals_share_a_rank() -> None:
    standing = standing_of(with_medals("low", 17))  # AIBuildAI's 77.27 on low is also 17 of 22
    above = [result for result in published_results() if result.comparable and result.rates["low"].mean > 77.27]
    assert (standing.rank, standing.worse[0].agent) == (len(above) + 1, "AIBuildAI")


def test_the_neighbours_are_the_nearest_on_either_side() -> None:
    standing = standing_of(with_medals("all", 26))
    above, below = ([result.rates["all"].mean for result in side] for side in (standing.better, standing.worse))
    assert above == sorted(above) and below == sorted(below, reverse=True)


def test_a_complete_split_is_compared_separately() -> None:
    standing = standing_of(with_medals("low", 12))  # 54.5 %; AIRA-dojo has 55.0 on low
    assert standing.summary.split == "low"
    assert standing.better[0].agent == "AIRA-dojo"


def test_an_incomplete_split_is_not_ranked_and_the_reason_is_given() -> None:
    part = group(dict.fromkeys(IDS["low"][:21], "gold"))
    summaries = summarise([part])
    assert standings(summaries, [part]) == []
    assert not_ranked(summaries) == ["agent on low: 21 competitions, not the whole split"]


@pytest.mark.parametrize("verified", [False, None])
def test_scores_on_unverified_data_are_not_ranked(verified: bool | None) -> None:
    whole = with_medals("all", 26)
    first, *others = whole.records
    doubtful = replace(whole, records=(replace(first, data_verified=verified), *others))
    summaries = summarise([doubtful])
    ranked = [standing.summary.split for standing in standings(summaries, [doubtful])]
    assert ranked == [split for split in ("low", "medium", "high") if first.split != split]
    (why,) = not_ranked(summaries)
    assert why.startswith("agent on all: the data of 1 of 75 competitions was not verified against the reference's")


def test_a_group_without_a_complete_seed_is_not_ranked() -> None:
    whole = with_medals("low", 3, seeds=1)
    broken = replace(whole, records=whole.records[1:], manifest=replace(whole.manifest, runs=_runs(whole)))
    assert standings(summarise([broken]), [broken]) == []
    assert not_ranked(summarise([broken])) == ["agent on low: no seed is complete"]
    assert standing_of(broken, pad_missing=True).caveats[-1].startswith("seed 0 is padded with failures")


def _runs(group: RunGroup) -> tuple[PlannedRun, ...]:
    return tuple(PlannedRun(*key) for key in group.runs)


def test_the_canonical_setting_is_compared_without_a_caveat() -> None:
    assert standing_of(with_medals("low", 3)).caveats == ()


def test_each_difference_from_the_canonical_setting_is_a_caveat() -> None:
    canonical = Canonical(is_canonical=False, differences=("8 CPUs instead of 36", "no GPU"))
    assert standing_of(with_medals("low", 3, canonical=canonical)).caveats == ("8 CPUs instead of 36", "no GPU")


def test_without_a_recorded_setting_the_time_limit_is_looked_up() -> None:
    unknown = with_medals("low", 3, canonical=None)
    hasty = replace(unknown, records=tuple(replace(r, limits={"time_limit": 3600.0}) for r in unknown.records))
    assert standing_of(hasty).caveats[0] == "a time limit of 1 h instead of 24 hours"
    assert standing_of(unknown).caveats == ("the setting was not recorded, so other differences are unknown",)


def test_a_single_seed_is_a_caveat() -> None:
    assert standing_of(with_medals("low", 3, seeds=1)).caveats == (
        "a single seed, so the variance between seeds is unknown",
    )


def test_published_results_show_how_their_setting_differs() -> None:
    shown = {(result.agent, result.date): flags(result) for result in published_results()}
    assert shown["PiEvolve", "2026-01-05"] == "12 hours, incomplete seeds padded"
    assert shown["Neo multi-agent", "2025-07-28"] == "36 hours"
    assert shown["AIDE", "2024-10-08"] == ""
    assert shown["LoongFlow", "2026-02-09"] == "test-set feedback, incomplete seeds padded"


def test_two_agents_are_compared_competition_by_competition() -> None:
    a, b, c, d = IDS["low"][1:5]
    ours = group({a: "gold", b: "bronze", c: "no_medal", d: "gold"}, agent="ours")
    theirs = group({a: "gold", b: "no_medal", c: "no_medal"}, agent="theirs", name="h")
    (comparison,) = compare(summarise([ours, theirs]))
    difference = comparison.difference
    assert (comparison.ours.label, comparison.theirs.label, comparison.split) == ("ours", "theirs", "low")
    assert (difference.competitions, difference.wins, difference.ties, difference.losses) == (3, 1, 2, 0)
    assert difference.mean == pytest.approx(100 / 3)


def test_the_same_agent_in_two_groups_is_also_compared() -> None:
    one, other = (group({IDS["low"][1]: outcome}, name=outcome) for outcome in ("gold", "no_medal"))
    (comparison,) = compare(summarise([one, other]))
    assert comparison.ours.label == "agent in gold" and comparison.difference.wins == 1


def test_labels_differ_even_if_an_agent_is_named_like_another_in_its_group() -> None:
    groups = [
        group({IDS["low"][1]: "gold"}, agent=agent, name=name)
        for agent, name in (("a", "one"), ("a", "two"), ("a in two", "three"), ("a in two (2)", "four"))
    ]
    found = labels(groups)
    assert list(found.values()) == ["a in one", "a in two", "a in two (2)", "a in two (2) (2)"]
    assert len(compare(summarise(groups))) == 6


def test_shortened_labels_of_different_agents_differ() -> None:
    agents = [f"an-agent-with-a-long-name/{way}-and-the-same-ending" for way in ("this-way", "that-way")]
    groups = [group({IDS["low"][1]: "gold"}, agent=name, name=f"g{k}") for k, name in enumerate([*agents, "other"])]
    shown = shortened([*agents, *agents, "other"])
    assert shown["other"] == "other" and all(len(name) < 54 and "…" in name for name in list(shown.values())[:2])
    (section,) = paired_sections(overview(groups), details=True)
    assert [tuple(row[1:3]) for row in section.tables[0].rows] == [*combinations(shown.values(), 2)]
    (rates, _) = rate_sections(overview(groups))
    assert [row[1] for row in rates.tables[0].rows] == [*shown.values()]
    assert shortened([agents[0]]) == {agents[0]: "an-agent-wit…-same-ending"} and shortened([]) == {}


def test_one_agent_is_not_compared_and_of_three_every_pair_is() -> None:
    groups = [group({IDS["low"][1]: "gold"}, agent=name, name=name) for name in "abc"]
    assert compare(summarise(groups[:1])) == []
    pairs = [(own.ours.label, own.theirs.label) for own in compare(summarise(groups))]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]


def test_p_values_are_adjusted_for_the_pairs_of_agents() -> None:
    best = group(dict.fromkeys(IDS["low"][:8], "gold"), agent="best")
    others = [group(dict.fromkeys(IDS["low"][:8], "no_medal"), agent=name, name=name) for name in "xy"]
    found = compare(summarise([best, *others]))
    assert [own.difference.p_value for own in found] == pytest.approx([2 / 2**8, 2 / 2**8, 1])
    assert [own.difference.adjusted_p_value for own in found] == pytest.approx([6 / 2**8, 6 / 2**8, 1])
    assert [own.is_conclusive for own in found] == [True, True, False]
    assert [own.percentile.adjusted_p_value for own in found if own.percentile] == pytest.approx([6 / 2**8] * 2 + [1])
    view = overview([best, *others])
    (section,) = paired_sections(view, details=True)
    assert [[row[-1] for row in table.rows] for table in section.tables] == [["0.023", "0.023", "1.000"]] * 2
    shown = [pair["percentile"]["adjusted_p_value"] for pair in to_json(view)["comparisons"]]
    assert shown == pytest.approx([6 / 2**8, 6 / 2**8, 1])


def test_a_pair_without_percentiles_does_not_count_in_their_adjustment() -> None:
    best, middle = (
        group(dict.fromkeys(IDS["low"][:8], outcome), agent=outcome, name=outcome) for outcome in ("gold", "no_medal")
    )
    without = replace(
        middle,
        folder=Path("without"),
        records=tuple(
            replace(run, agent="without", report=replace(run.report, percentile=None)) for run in middle.records
        ),
    )
    found = compare(summarise([best, middle, without]))
    percentiles = [own.percentile.adjusted_p_value for own in found if own.percentile]
    assert percentiles == [pytest.approx(2 / 2**8)]


def test_runs_are_paired_by_competition_and_seed() -> None:
    # On the first competition, we have seeds 0 to 2 and they have 0 and 1. On the second, no seed is in both.
    a, b = IDS["low"][1:3]
    ours = [with_seed(a, "gold", 0), with_seed(a, "no_medal", 1), with_seed(a, "gold", 2), with_seed(b, "gold", 2)]
    theirs = [with_seed(a, "no_medal", 0), with_seed(a, "gold", 1), with_seed(b, "no_medal", 0)]
    groups = [RunGroup(folder=Path(name), records=tuple(own)) for name, own in (("one", ours), ("two", theirs))]
    (comparison,) = compare(summarise(groups))
    assert (comparison.difference.competitions, comparison.difference.runs) == (1, 2)
    assert comparison.difference.mean == 0 and comparison.difference.seeds_interval is not None
    (padded,) = compare(summarise(groups, pad_missing=True))
    assert (padded.difference.competitions, padded.difference.runs) == (2, 4)


def test_percentiles_are_also_compared() -> None:
    a, b = IDS["low"][1:3]
    one = group({a: "gold", b: "crashed"}, agent="one")
    two = group({a: "gold", b: "gold"}, agent="two", name="h")
    (comparison,) = compare(summarise([one, two]))
    assert comparison.percentile is not None
    of_gold = two.records[-1].report.percentile
    assert of_gold is not None and comparison.percentile.mean == pytest.approx(-of_gold / 2)


def with_seed(id: str, outcome: str, seed: int) -> RunRecord:
    return record_with(default_catalogue()[id], outcome, seed=seed)


def test_scores_are_compared_over_the_seeds_of_all_agents() -> None:
    assert mean_scores([{0: 1.0, 1: 3.0}, {1: 5.0, 2: 9.0}, {}]) == [3.0, 5.0, None]
    assert mean_scores([{0: 1.0, 1: 3.0}, {2: 5.0}]) == [2.0, 5.0]
    assert mean_scores([]) == []
