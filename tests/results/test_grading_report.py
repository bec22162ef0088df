"""A run group's JSON files, as others read them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.grading.report import Report
from pytest_mlebench.results.grading_report import grading_report
from pytest_mlebench.runs.group import read_group
from pytest_mlebench.runs.outcome import Outcome
from pytest_mlebench.runs.record import RunRecord
from tests.groups import record_with, save_group

TOTALS = {
    "total_runs",
    "total_runs_with_submissions",
    "total_valid_submissions",
    "total_medals",
    "total_gold_medals",
    "total_silver_medals",
    "total_bronze_medals",
    "total_above_median",
}
FIELDS: dict[str, type | tuple[type, ...]] = {
    "competition_id": str,
    "score": (float, int, type(None)),
    "gold_threshold": (float, int),
    "silver_threshold": (float, int),
    "bronze_threshold": (float, int),
    "median_threshold": (float, int),
    "any_medal": bool,
    "gold_medal": bool,
    "silver_medal": bool,
    "bronze_medal": bool,
    "above_median": bool,
    "submission_exists": bool,
    "valid_submission": bool,
    "is_lower_better": bool,
    "created_at": str,
    "submission_path": str,
}
SPACESHIP = default_catalogue()["spaceship-titanic"]


def strictly(path: Path) -> Any:
    """JSON as MLE-bench's readers understand it: with an infinite score as Infinity, and never with NaN."""

    def constant(text: str) -> float:
        assert text != "NaN", f"{path.name} holds {text}"
        return float(text)

    return json.loads(path.read_text(), parse_constant=constant)


def with_score(record: RunRecord, score: float | None, *, seed: int = 100) -> RunRecord:
    return replace(record, run_id=f"odd-{seed}", seed=seed, report=replace(record.report, score=score))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A group with a run of every outcome, and with scores that are no numbers."""
    records = [record_with(SPACESHIP, outcome, seed=seed) for seed, outcome in enumerate(Outcome)]
    scores = (math.inf, -math.inf, math.nan, None)
    odd = [with_score(records[4], score, seed=100 + k) for k, score in enumerate(scores)]
    save_group(tmp_path / "g", [*records, *odd])
    return tmp_path / "g"


def test_the_grading_report_has_the_fields_and_types_of_mle_bench(folder: Path) -> None:
    report = strictly(folder / "grading_report.json")
    assert report.keys() == TOTALS | {"competition_reports"}
    assert all(type(report[key]) is int for key in TOTALS)
    assert len(report["competition_reports"]) == report["total_runs"] == len(Outcome) + 4
    for one in report["competition_reports"]:
        assert one.keys() >= FIELDS.keys()
        assert not {key: one[key] for key, kind in FIELDS.items() if not isinstance(one[key], kind)}


def test_the_totals_are_those_of_the_single_reports(folder: Path) -> None:
    report = strictly(folder / "grading_report.json")
    singles = report["competition_reports"]
    for total, field in {
        "total_runs_with_submissions": "submission_exists",
        "total_valid_submissions": "valid_submission",
        "total_medals": "any_medal",
        "total_gold_medals": "gold_medal",
        "total_silver_medals": "silver_medal",
        "total_bronze_medals": "bronze_medal",
        "total_above_median": "above_median",
    }.items():
        assert report[total] == sum(single[field] for single in singles)
    assert report["total_medals"] == 3


def test_an_invalid_submission_has_no_score_and_a_reason(folder: Path) -> None:
    singles = strictly(folder / "grading_report.json")["competition_reports"]
    invalid = [one for one in singles if one["submission_exists"] and not one["valid_submission"]]
    assert [(one["score"], one["error"]) for one in invalid] == [
        (None, "column 'target' is missing; the file has 'id'")
    ]


def test_every_file_of_a_group_is_json_without_nan(folder: Path) -> None:
    files = sorted(folder.rglob("*.json"))
    assert len(files) == len(Outcome) + 4 + 2
    for path in files:
        strictly(path)


def test_an_infinite_score_is_read_back_and_nan_is_none(folder: Path) -> None:
    odd = [record for record in read_group(folder).records if record.seed >= 100]
    assert [record.score for record in odd] == [math.inf, -math.inf, None, None]
    assert {record.outcome for record in odd} == {"no_medal"}


def test_an_infinite_or_missing_score_survives_in_memory() -> None:
    for score in (math.inf, -math.inf, None):
        one = with_score(record_with(SPACESHIP, "gold"), score)
        assert RunRecord.from_json(one.to_json()) == one


def test_keys_of_a_later_version_are_ignored() -> None:
    values = record_with(SPACESHIP, "gold").to_json()
    values["new"] = values["report"]["new"] = 1
    assert RunRecord.from_json(values).outcome == "gold"


def test_a_report_can_be_made_of_nothing() -> None:
    empty: list[Report] = []
    assert grading_report(empty)["total_runs"] == 0
