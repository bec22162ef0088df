"""Results of two versions of the benchmark have separate tables and are never compared without a note."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.manifest import Manifest, PlannedRun
from pytest_mlebench.reports.sections import sections
from pytest_mlebench.reports.tables import run_sections
from pytest_mlebench.results.overview import overview
from tests.groups import record_with

LOW = [competition.id for competition in default_catalogue().split("low")]
CONTAMINATED, INDICATIVE = LOW[:2]


def group(version: str, *, name: str) -> RunGroup:
    """Gold in the first two competitions of ``low``, no medal in the others."""
    records = []
    for id in LOW:
        competition = default_catalogue(version=version)[id]
        record = record_with(competition, "gold" if id in LOW[:2] else "no_medal", agent="aide", seed=0)
        report = replace(record.report, bench_version=version)
        if version == "v2":
            report = replace(
                report,
                contaminated=id == CONTAMINATED,
                thresholds="indicative" if id == INDICATIVE else "apply",
            )
        records.append(replace(record, split=competition.split_label, report=report))
    runs = tuple(PlannedRun("aide", id, 0) for id in LOW)
    return RunGroup(folder=Path("reports", name), records=tuple(records), manifest=Manifest(runs=runs))


def text_of(*groups: RunGroup) -> str:
    return "\n".join(section.text() for section in sections(overview(groups)))


def test_two_versions_have_separate_splits_and_are_not_compared() -> None:
    first, second = group("v1", name="one"), group("v2", name="two")
    view = overview([first, second])
    assert [summary.split for summary in view.summaries] == ["low", "low v2"]
    assert not view.comparisons and overview([first, group("v1", name="three")]).comparisons
    side_by_side = [section.title for section in run_sections([first, second])]
    assert side_by_side == ["Runs of one", "Runs of two", "Not compared competition by competition"]
    assert "one uses version 1 and two uses version 2 of the benchmark" in "\n".join(
        section.text() for section in run_sections([first, second])
    )


def test_the_second_version_is_not_ranked_among_the_published_results() -> None:
    view = overview([group("v1", name="one"), group("v2", name="two")])
    assert [standing.summary.split for standing in view.standings] == ["low"]
    assert "aide in two on low v2: the published results are of version 1" in view.not_ranked


def test_rates_are_shown_with_and_without_contaminated_competitions() -> None:
    (summary,) = overview([group("v2", name="two")]).summaries
    assert summary.any_medal.mean == pytest.approx(100 * 2 / 22)
    assert summary.any_medal_without is not None
    assert summary.any_medal_without.mean == pytest.approx(100 * 1 / 21)
    assert summary.contaminated == (CONTAMINATED,) and summary.indicative == (INDICATIVE,)
    text = text_of(group("v2", name="two"))
    assert f"without the 1 contaminated competition ({CONTAMINATED})" in text
    assert f"medals on {INDICATIVE} are only indicative" in summary.caution
    assert "contaminated" not in text_of(group("v1", name="one"))


def test_an_indicative_medal_is_marked_in_the_table_of_runs() -> None:
    lines = "\n".join(section.text() for section in run_sections([group("v2", name="two")])).splitlines()
    assert [line.split()[0] for line in lines if "~gold" in line] == [INDICATIVE]


def test_all_summarises_the_splits_of_its_version() -> None:
    medium = default_catalogue(version="v2").split("medium")[:1]
    second = group("v2", name="two")
    extra = record_with(medium[0], "gold", agent="aide", seed=0)
    records = (*second.records, replace(extra, split=medium[0].split_label))
    runs = (*second.manifest.runs, PlannedRun("aide", medium[0].id, 0))
    view = overview([replace(second, records=records, manifest=Manifest(runs=runs, settings={"bench_version": "v2"}))])
    assert [summary.split for summary in view.summaries] == ["low v2", "medium v2", "all v2"]
    assert view.summaries[-1].is_whole and not view.standings
