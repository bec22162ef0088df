"""Medals over time and cost, and medals lost by last changes: hand-calculated numbers, and their display."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.page import page
from pytest_mlebench.reports.plots import plots
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.results import read_group
from pytest_mlebench.results.overview import RateStep, overview, rate_at, timelines
from tests.groups import record_with, save_group, with_timeline

LOW = default_catalogue().split("low")
BOARDS = [competition.leaderboard for competition in LOW]


def runs(*, cost: float | None = None) -> list[RunRecord]:
    """Four runs of 60 s: one earns a medal and loses it, one earns and keeps it, two never earn one."""
    records = [
        record_with(competition, outcome, agent="aide")
        for competition, outcome in zip(LOW, ("no_medal", "gold", "no_medal", "invalid_submission"), strict=False)
    ]
    if cost is not None:
        records = [replace(record, llm={"calls": 100, "cost": cost}) for record in records]
    return [
        with_timeline(records[0], LOW[0], (0.25, BOARDS[0].silver), (0.5, BOARDS[0].gold)),
        with_timeline(records[1], LOW[1], (0.5, BOARDS[1].bronze)),
        with_timeline(records[2], LOW[2]),
        with_timeline(records[3], LOW[3], (0.75, BOARDS[3].median)),
    ]


def test_the_rate_over_time_follows_each_runs_current_medal() -> None:
    (found,) = timelines(runs())
    assert found.over_time == (RateStep(15.0, 25.0), RateStep(30.0, 50.0), RateStep(60.0, 25.0))
    assert [rate_at(found.over_time, seconds) for seconds in (0, 15, 29, 30, 59, 60, 1e9)] == [
        0,
        25,
        25,
        50,
        50,
        25,
        25,
    ]
    assert (found.final, found.best) == (25.0, 50.0)
    assert (found.runs, found.with_snapshots, found.last_was_worse, found.medals_lost) == (4, 3, 2, 1)


def test_the_rate_over_cost_excludes_unknown_costs() -> None:
    priced = runs(cost=2.0)
    (found,) = timelines([*priced[:3], replace(priced[3], llm={"calls": 3, "cost": None})])
    assert found.priced == 3
    assert [(step.amount, round(step.rate, 2)) for step in found.over_cost] == [
        (0.5, 33.33),
        (1.0, 66.67),
        (2.0, 33.33),
    ]
    assert timelines(runs())[0].over_cost == ()


def test_runs_without_snapshots_count_from_their_end_and_errors_not_at_all() -> None:
    medal, error = record_with(LOW[0], "gold"), record_with(LOW[1], "error")
    (found,) = timelines([medal, error])
    assert found.over_time == (RateStep(60.0, 100.0),) and found.runs == 1 and found.with_snapshots == 0


def test_estimates_are_counted_by_their_direction() -> None:
    lower, higher = (next(c for c in LOW if c.leaderboard.lower_is_better is kind) for kind in (True, False))
    records = []
    for competition in (lower, higher):
        for seed, more in enumerate((-0.25, 0.25)):
            record = record_with(competition, "gold", seed=seed)
            records.append(replace(record, validation_score=(record.score or 0.0) + more))
    (found,) = timelines(records)
    assert (found.estimates, found.too_optimistic) == (4, 2)
    assert [record.validation_gap for record in records] == pytest.approx([0.25, -0.25, -0.25, 0.25])


@pytest.fixture
def group(tmp_path: Path) -> Path:
    made = runs(cost=2.0)
    made[1] = replace(made[1], validation_score=made[1].score)
    save_group(tmp_path / "runs/group", made)
    return tmp_path / "runs/group"


def test_the_report_has_a_table_and_names_the_run_that_lost_a_medal(
    group: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(group)]) == 0
    text = capsys.readouterr().out
    section = text[text.index("Submissions over time") :].split("\n\n")[0]
    heads, row = section.splitlines()[2:4]
    assert heads.split("  ")[0] == "split" and "best kept" in heads
    assert row.split() == ["low", "aide", "4", "0.0", "25.0", "50.0", "25.0", "50.0", "2", "1"]
    assert f"aide on {LOW[0].id}, seed 0: the last change cost a gold medal:" in " ".join(text.split())
    assert "1 run with an estimate" in " ".join(text.split())


def test_the_report_has_the_timeline_as_json_and_csv(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(group), "--format=json"]) == 0
    values = json.loads(capsys.readouterr().out)
    (found,) = values["timelines"]
    assert found["over_time"][0] == {"amount": 15.0, "rate": 25.0} and found["medals_lost"] == 1
    lost = [row["competition_id"] for row in values["runs"] if row["medal_lost"]]
    assert lost == [LOW[0].id]
    assert main(["report", str(group), "--format=csv"]) == 0
    heads = capsys.readouterr().out.splitlines()[0].split(",")
    assert {"best_score", "best_medal", "medal_lost", "validation_score", "validation_gap"} <= set(heads)


def test_the_page_draws_rates_over_time_and_cost_and_lists_a_runs_submissions(group: Path) -> None:
    view = overview([read_group(group)])
    drawn = {plot.name: plot for plot in plots(view)}
    assert [panel.title for panel in drawn["over-time"].panels] == [
        "Any-medal rate on low, over time",
        "Any-medal rate on low, over cost",
    ]
    assert "aide: 25.0 % at the end, 50.0 % with each run's best" in drawn["over-time"].panels[0].description
    text = page(view)
    assert "Any-medal rates while agents ran" in text and "Submissions over time" in text
    record = next(record for record in view.records if record.competition_id == LOW[0].id)
    lines = dict(run_details(record))["submissions"].splitlines()
    assert len(lines) == 4 and lines[0].startswith("after 15 s: ") and "medal" not in lines[2]
    assert lines[-1].startswith("the last change cost a gold medal: ")


def test_a_report_without_snapshots_does_not_mention_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_group(tmp_path / "group", [record_with(LOW[0], "gold")])
    assert main(["report", str(tmp_path / "group")]) == 0
    assert "over time" not in capsys.readouterr().out
    assert "over-time" not in {plot.name for plot in plots(overview([read_group(tmp_path / "group")]))}
