"""Medal rates and the grading report."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.grading.report import Report
from pytest_mlebench.results.grading_report import grading_report
from pytest_mlebench.results.record import RunRecord
from pytest_mlebench.results.summary import rate, summarise


def record(
    medal: str | None = None, *, split: str = "low", competition: str = "a", seed: int = 0, ending: str = "finished"
) -> RunRecord:
    report = Report(
        competition_id=competition,
        score=0.5,
        gold_threshold=0.9,
        silver_threshold=0.8,
        bronze_threshold=0.7,
        median_threshold=0.6,
        any_medal=medal is not None,
        gold_medal=medal == "gold",
        silver_medal=medal == "silver",
        bronze_medal=medal == "bronze",
        above_median=medal is not None,
        submission_exists=True,
        valid_submission=True,
        is_lower_better=False,
        created_at="2026-01-01T00:00:00+00:00",
        submission_path="submission.csv",
    )
    return RunRecord(
        run_id=f"{competition}_{seed}",
        run_group="g",
        competition_id=competition,
        split=split,
        category="Tabular",
        agent="agent",
        seed=seed,
        started_at="2026-01-01T00:00:00+00:00",
        ended_at="2026-01-01T00:00:01+00:00",
        ending=ending,
        seconds=1.0,
        report=report,
    )


def test_a_rate_is_the_mean_over_seeds_and_its_standard_error() -> None:
    # Shares of 50, 100 and 0 per cent: mean 50, sample deviation 50, standard error 50 / √3.
    result = rate([[True, False], [True, True], [False, False]])
    assert result.mean == 50
    assert result.standard_error == pytest.approx(50 / math.sqrt(3))
    assert str(result) == "50.0 % ± 28.9"


def test_a_single_seed_has_no_standard_error() -> None:
    assert str(rate([[True, False, False]])) == "33.3 %"


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=6))
def test_rates_agree_with_the_statistics_module(seeds: list[list[bool]]) -> None:
    shares = [100 * sum(seed) / 3 for seed in seeds]
    result = rate(seeds)
    assert result.mean == pytest.approx(statistics.mean(shares))
    assert result.standard_error == pytest.approx(statistics.stdev(shares) / math.sqrt(len(shares)))


def test_splits_are_summed_up_apart_and_together() -> None:
    records = [
        record("gold", split="low", competition="a"),
        record(None, split="low", competition="b"),
        record("silver", split="high", competition="c"),
        record("gold", split="smoke", competition="d"),
    ]
    by_split = {summary.split: summary for summary in summarise(records)}
    assert {split: summary.any_medal.mean for split, summary in by_split.items()} == {
        "smoke": 100,
        "low": 50,
        "high": 100,
        "all": pytest.approx(200 / 3),
    }
    assert by_split["all"].competitions == 3 and by_split["all"].counts["gold"] == 1


def test_an_infinite_or_missing_score_survives_json() -> None:
    for score in (math.inf, -math.inf, None):
        one = record("gold")
        one = replace(one, report=replace(one.report, score=score))
        assert RunRecord.from_json(one.to_json()) == one


def test_keys_of_a_later_version_are_ignored() -> None:
    values = record("gold").to_json()
    values["new"] = values["report"]["new"] = 1
    assert RunRecord.from_json(values).outcome == "gold"


def test_the_grading_report_counts() -> None:
    report = grading_report([record(medal).report for medal in ("gold", "gold", "bronze", None)])
    assert (report["total_runs"], report["total_medals"], report["total_gold_medals"]) == (4, 3, 2)
    assert len(report["competition_reports"]) == 4
