"""A run group's JSON files, as external tools read them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import grading_report, report_name, write_group
from pytest_mlebench.records.outcome import Outcome, Report
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results import find_group, read_group
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
    """Parse JSON like MLE-bench's readers: an infinite score is Infinity, and NaN is an error."""

    def constant(text: str) -> float:
        assert text != "NaN", f"{path.name} contains {text}"
        return float(text)

    return json.loads(path.read_text(), parse_constant=constant)


def with_score(record: RunRecord, score: float | None, *, seed: int = 100) -> RunRecord:
    return replace(record, run_id=f"odd-{seed}", seed=seed, report=replace(record.report, score=score))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A group with a run of every outcome and with scores that are not finite."""
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


def test_the_totals_match_the_single_reports(folder: Path) -> None:
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


def test_an_infinite_score_is_read_back_and_nan_becomes_none(folder: Path) -> None:
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


def test_a_report_without_runs_can_be_created() -> None:
    empty: list[Report] = []
    assert grading_report(empty)["total_runs"] == 0


def test_reports_are_ordered_by_seed_as_in_mle_bench_and_separate_per_agent(tmp_path: Path) -> None:
    records = [
        replace(record_with(SPACESHIP, outcome, agent=agent, seed=seed), run_id=f"{agent[-1]}{seed}")
        for agent, seed, outcome in [("b", 1, "gold"), ("a/x", 1, "silver"), ("b", 0, "bronze"), ("a/x", 0, "no_medal")]
    ]
    write_group(tmp_path, "2026-01-01", records)

    def medals(name: str) -> list[str]:
        reports = strictly(tmp_path / name)["competition_reports"]
        return [next((m for m in ("gold", "silver", "bronze") if report[f"{m}_medal"]), "none") for report in reports]

    assert medals("grading_report.json") == ["none", "silver", "bronze", "gold"]
    assert medals("grading_report_a+x.json") == ["none", "silver"]
    assert medals("grading_report_b.json") == ["bronze", "gold"]
    other = datetime.fromisoformat("2024-10-01T12:00:00.123456")  # as MLE-bench writes it
    for report in strictly(tmp_path / "grading_report.json")["competition_reports"]:
        assert datetime.fromisoformat(report["created_at"]) > other


def test_a_folder_with_only_a_grading_report_is_read(tmp_path: Path) -> None:
    reports = [record_with(SPACESHIP, outcome).report for outcome in ("gold", "no_medal", "invalid_submission")]
    values = grading_report(reports)
    for report in values["competition_reports"]:  # our additional fields
        for name in ("error", "grader_defect", "percentile"):
            del report[name]
    (tmp_path / "aide-o1").mkdir()
    (tmp_path / "aide-o1/2024-10-01T12-00-00-GMT_grading_report.json").write_text(json.dumps(values))
    group = read_group(tmp_path / "aide-o1")
    assert [(record.agent, record.seed, record.outcome.label) for record in group.records] == [
        ("aide-o1", 0, "gold"),
        ("aide-o1", 1, "no medal"),
        ("aide-o1", 2, "invalid submission"),
    ]
    assert group.records[0].split == "dev"
    with pytest.raises(UsageError, match=r"_grading_report.json is a grading report: name its folder, /.*/aide-o1$"):
        find_group(f"{tmp_path}/aide-o1/2024-10-01T12-00-00-GMT_grading_report.json", tmp_path)
    (tmp_path / "aide-o1/2024-09-01T12-00-00-GMT_grading_report.json").write_text(json.dumps(values))
    (earlier,) = read_group(tmp_path / "aide-o1").broken
    assert "2024-09-01T12-00-00-GMT_grading_report.json: only the last grading report is read" in earlier
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/grading_report.json").write_text("[]")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (tmp_path / "lfs").mkdir()
    (tmp_path / "lfs" / "2024_grading_report.json").write_text(pointer)
    with pytest.raises(UsageError, match="is not a grading report: it is a Git LFS pointer; run `git lfs pull` in "):
        read_group(tmp_path / "lfs")
    with pytest.raises(UsageError, match=r"is not a grading report: it must be an object, not \[\]"):
        read_group(tmp_path / "broken")


@pytest.mark.parametrize(
    "ids", [("col/x", "col-x"), ("a/b/c", "a/b-c", "a-b-c", "a+b"), ("\u00e9", "\u00e8"), ("x" * 190, "x" * 191)]
)
def test_each_agent_has_a_separate_grading_report(ids: tuple[str, ...], tmp_path: Path) -> None:
    save_group(tmp_path / "g", [record_with(SPACESHIP, "gold", agent=id, seed=k) for k, id in enumerate(ids)])
    assert len(list((tmp_path / "g").glob("grading_report_*.json"))) == len(ids)
    assert len({report_name(id) for id in ids}) == len(ids)
