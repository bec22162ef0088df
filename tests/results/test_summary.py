"""Medal rates of run groups: complete and incomplete seeds, splits, categories, and several groups."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Manifest, PlannedRun
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.results.overview import spending
from pytest_mlebench.results.summary import SplitSummary, summarise
from tests.groups import record_with

LOW = [competition.id for competition in default_catalogue().split("low")]
MEDIUM = [competition.id for competition in default_catalogue().split("medium")]
A, B = LOW[1], LOW[2]


def group(
    outcomes: Mapping[str, Sequence[str | None]], *, name: str = "g", agent: str = "agent", manifest: bool = True
) -> RunGroup:
    """A group with these outcomes by competition and seed; None is a run without a record."""
    planned = [(id, seed, outcome) for id, by_seed in outcomes.items() for seed, outcome in enumerate(by_seed)]
    runs = tuple(PlannedRun(agent, id, seed) for id, seed, _ in planned)
    return RunGroup(
        folder=Path("reports", name),
        records=tuple(
            record_with(default_catalogue()[id], outcome, agent=agent, seed=seed)
            for id, seed, outcome in planned
            if outcome
        ),
        manifest=Manifest(runs=runs if manifest else ()),
    )


def summary_of(group: RunGroup, split: str = "low", *, pad_missing: bool = False) -> SplitSummary:
    return next(s for s in summarise([group], pad_missing=pad_missing) if s.split == split)


def test_rates_are_means_over_seeds_with_their_standard_error() -> None:
    # Seed 0 earns 2 of 2 medals, seed 1 earns one: shares 100 and 50, mean 75, standard error 35.36 / √2 = 25.
    summary = summary_of(group({A: ["gold", "no_medal"], B: ["bronze", "gold"]}))
    assert (summary.any_medal.mean, summary.any_medal.standard_error) == pytest.approx((75, 25))
    assert (summary.gold.mean, summary.gold.standard_error) == pytest.approx((50, 0))
    assert (summary.silver.mean, summary.bronze.mean) == (0, 25)
    assert (summary.competitions, summary.seeds, summary.note) == (2, 2, "")
    assert summary.medal_rates == {A: 50, B: 100}
    assert summary.pass_at_k == pytest.approx((75, 100))


def test_rates_below_a_medal_are_cumulative() -> None:
    one = ["above_median", "no_medal", "invalid_submission", "crashed", "silver"]
    summary = summary_of(group({A: one}))
    rates = (summary.above_median, summary.valid, summary.submitted, summary.any_medal)
    assert [rate.mean for rate in rates] == pytest.approx([40, 60, 80, 20])
    assert {name: count for name, count in summary.counts.items() if count} == dict.fromkeys(one, 1)


@pytest.mark.parametrize("lack", [None, "error"])
def test_a_seed_without_a_result_for_each_competition_is_left_out(lack: str | None) -> None:
    summary = summary_of(group({A: ["gold", "no_medal", "gold"], B: ["gold", lack, "no_medal"]}))
    assert (summary.any_medal.mean, summary.any_medal.standard_error) == pytest.approx((75, 25))
    assert (summary.counted_seeds, summary.left_out_seeds, summary.missing) == ((0, 2), (1,), 1)
    by_error = ", 1 of them due to an error in the harness or a grader" if lack else ""
    assert summary.note == f"seed 1 is incomplete and left out (1 run of 6 without a result{by_error})"


@pytest.mark.parametrize("lack", [None, "error"])
def test_a_seed_is_padded_with_failures_if_requested(lack: str | None) -> None:
    # Shares of 100, 0 and 50.
    summary = summary_of(group({A: ["gold", "no_medal", "gold"], B: ["gold", lack, "no_medal"]}), pad_missing=True)
    assert (summary.any_medal.mean, summary.any_medal.standard_error) == pytest.approx((50, 50 / math.sqrt(3)))
    assert (summary.counted_seeds, summary.left_out_seeds, summary.padded_seeds) == ((0, 1, 2), (), (1,))
    assert summary.note.startswith("seed 1 is padded with failures (1 run of 6 without a result")


def test_an_agents_failure_counts_as_a_result() -> None:
    summary = summary_of(group({A: ["gold", "crashed"], B: ["timed_out", "no_submission"]}))
    assert (summary.any_medal.mean, summary.left_out_seeds) == (25, ())


def test_without_a_complete_seed_rates_cover_the_runs_so_far() -> None:
    summary = summary_of(group({A: ["gold", None], B: [None, "no_medal"]}))
    assert summary.is_provisional and not summary.pass_at_k and summary.interval is None
    assert (summary.any_medal.mean, summary.any_medal.standard_error) == (50, None)
    assert summary.note == (
        "provisional: no seed is complete (2 runs of 4 without a result); rates are over the runs that have one"
    )


def test_a_group_that_has_just_begun_has_no_rates_yet() -> None:
    summary = summary_of(group({A: [None], B: [None]}))
    assert str(summary.any_medal) == "-" and "2 runs of 2 without a result" in summary.note


def test_without_a_manifest_a_seed_is_compared_with_the_runs_of_other_seeds() -> None:
    summary = summary_of(group({A: ["gold", "gold"], B: ["no_medal", None]}, manifest=False))
    assert (summary.any_medal.mean, summary.counted_seeds, summary.left_out_seeds) == (50, (0,), (1,))


def test_of_several_records_of_a_run_the_last_one_counts() -> None:
    one = group({A: ["crashed"]}, manifest=False)
    again = replace(record_with(default_catalogue()[A], "gold"), run_id="again", started_at="2026-03-02T00:00:00+00:00")
    summary = summary_of(replace(one, records=(*one.records, again)))
    assert summary.any_medal.mean == 100 and summary.counts[Outcome.crashed] == 0


def test_runs_have_the_same_order_in_every_process() -> None:
    records = tuple(record_with(default_catalogue()["smoke-digits"], "gold", seed=seed) for seed in range(9, -1, -1))
    (summary,) = summarise([RunGroup(folder=Path("g"), records=records)])
    assert [seed for _, seed in summary.records] == list(range(10))


def test_splits_are_summarised_separately_and_together() -> None:
    one = group({A: ["gold"], B: ["no_medal"], MEDIUM[0]: ["gold"], "spaceship-titanic": ["gold"]})
    by_split = {summary.split: summary.any_medal.mean for summary in summarise([one])}
    assert by_split == {"dev": 100, "low": 50, "medium": 100, "all": pytest.approx(200 / 3)}
    assert list(by_split) == ["dev", "low", "medium", "all"]


def test_a_single_split_is_not_summarised_twice() -> None:
    assert [summary.split for summary in summarise([group({A: ["gold"]})])] == ["low"]


def test_a_seed_may_be_complete_on_one_split_and_not_on_all() -> None:
    one = group({A: ["gold", "gold"], MEDIUM[0]: ["gold", None]})
    assert [(s.split, s.counted_seeds) for s in summarise([one])] == [("low", (0, 1)), ("medium", (0,)), ("all", (0,))]


def test_categories_are_summarised_over_all_splits() -> None:
    catalogue = default_catalogue()
    low, medium = (
        next(c.id for c in catalogue.split(split) if c.category == "Image Classification")
        for split in ("low", "medium")
    )
    text = next(c.id for c in catalogue.split("low") if c.category == "Text Classification")
    one = group({low: ["gold"], medium: ["no_medal"], text: ["silver"]})
    summaries = summarise([one], by_category=True)
    assert [(s.split, s.category, s.competitions, s.any_medal.mean) for s in summaries] == [
        ("all", "Image Classification", 2, 50),
        ("all", "Text Classification", 1, 100),
    ]


def test_custom_competitions_may_have_a_custom_split() -> None:
    one = group({A: ["gold"]})
    own = replace(record_with(default_catalogue()[A], "gold"), competition_id="mine", split="house", category="Chess")
    both = replace(one, records=(*one.records, own))
    assert [summary.split for summary in summarise([both])] == ["low", "house"]


def test_an_unknown_competition_is_counted_as_missing() -> None:
    one = group({A: ["gold"]})
    planned = (*one.manifest.runs, PlannedRun("agent", "unheard-of", 0))
    summaries = summarise([replace(one, manifest=Manifest(runs=planned))])
    assert [(s.split, s.missing) for s in summaries] == [("low", 0), ("unknown", 1)]


def test_only_the_whole_split_covers_it() -> None:
    assert not summary_of(group({id: ["gold"] for id in LOW[1:]})).covers_split
    assert not summary_of(group({id: ["gold"] for id in [*LOW[1:], "spaceship-titanic"]})).covers_split
    whole = group({id: ["gold"] for id in LOW})
    assert summary_of(whole).covers_split
    assert not any(summary.covers_split for summary in summarise([whole], by_category=True))


def test_agents_of_several_groups_have_different_names() -> None:
    groups = [
        group({A: ["gold"]}, name="one", agent="aide"),
        group({A: ["gold"]}, name="two", agent="aide"),
        group({A: ["gold"]}, name="three", agent="baseline"),
    ]
    assert [summary.label for summary in summarise(groups)] == ["aide in one", "aide in two", "baseline"]
    same_name = [replace(groups[0], folder=Path(folder, "one")) for folder in ("here", "there")]
    assert [summary.label for summary in summarise(same_name)] == ["aide in here/one", "aide in there/one"]


def test_failed_calls_are_counted_by_status_in_json() -> None:
    llm = {"calls": 2, "cost": 0.1, "errors": {"429": 3, "500": 1}}
    records = [replace(record_with(default_catalogue()["leaf-classification"], "bronze"), llm=llm)] * 2
    assert json.loads(json.dumps([asdict(own) for own in spending(records)]))[0]["failures"] == {"429": 6, "500": 2}
