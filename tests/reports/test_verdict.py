"""The title and the verdict of a report: one sentence that is true for every outcome of the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.group import RunGroup, grading_report
from pytest_mlebench.records.manifest import Manifest, PlannedRun
from pytest_mlebench.records.outcome import TWIN_DATA
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.reports.sections import Heading, heading
from pytest_mlebench.results import read_group
from pytest_mlebench.results.overview import overview
from pytest_mlebench.results.profile import fairness_profile
from tests.groups import record_with

SMOKE = default_catalogue().split("smoke")
LOW = default_catalogue().split("low")


def runs(*outcomes: str, agent: str = "baseline", seed: int = 0) -> list[RunRecord]:
    return [record_with(c, outcome, agent=agent, seed=seed) for c, outcome in zip(SMOKE, outcomes, strict=False)]


def of(
    records: Sequence[RunRecord], planned: Sequence[RunRecord] = (), options: Mapping[str, object] | None = None
) -> Heading:
    manifest = Manifest(
        options=options or {}, runs=tuple(PlannedRun(r.agent, r.competition_id, r.seed) for r in (*records, *planned))
    )
    return heading(overview([RunGroup(folder=Path("g"), records=tuple(records), manifest=manifest)]))


def test_a_verdict_counts_medals_and_states_its_certainty() -> None:
    top = of(runs("gold", "bronze", "no_medal"))
    assert top.title == "baseline on smoke, 1 March 2026"
    assert top.verdict == "baseline earned a medal in 2 of 3 competitions (66.7 %, 95 % interval 21–94 %)."
    assert top.caveats == []


def test_several_seeds_give_a_rate() -> None:
    records = [*runs("gold", "bronze", "no_medal"), *runs("gold", "no_medal", "no_medal", seed=1)]
    assert of(records).verdict == (
        "baseline earned a medal in 50.0 % of 3 competitions × 2 seeds (95 % interval 13–87 %)."
    )


def test_having_no_medals_is_stated_in_words() -> None:
    none = runs("no_medal", "crashed", "no_medal")
    assert of(none).verdict == "baseline earned no medal in 3 competitions (95 % interval 0–56 %)."
    none += runs("no_medal", "crashed", "no_medal", seed=1)
    assert of(none).verdict == "baseline earned no medal in 3 competitions × 2 seeds (95 % interval 0–56 %)."


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("gold", "baseline earned a gold medal on {}."),
        ("no_medal", "baseline earned no medal on {}."),
        ("above_median", "baseline earned no medal on {} (above median)."),
        ("crashed", "baseline earned no medal on {} (crashed)."),
    ],
)
def test_a_single_run_gives_no_rate(outcome: str, verdict: str) -> None:
    top = of(runs(outcome))
    assert top.title == f"baseline on {SMOKE[0].id}, 1 March 2026"
    assert top.verdict == verdict.format(SMOKE[0].id)
    assert top.caveats == (["No run produced a valid submission."] if outcome == "crashed" else [])


@pytest.mark.parametrize(
    ("outcome", "verdict"), [("gold", "earned a gold medal on {}."), ("crashed", "earned no medal on {} (crashed).")]
)
def test_of_several_seeds_the_only_counted_one_gives_the_verdict(outcome: str, verdict: str) -> None:
    records = [*runs("error"), *runs(outcome, seed=1)]
    assert of(records).verdict == f"baseline {verdict.format(SMOKE[0].id)}"
    padded = overview([RunGroup(folder=Path("g"), records=tuple(runs("error")))], pad_missing=True)
    assert heading(padded).verdict == f"baseline earned no medal on {SMOKE[0].id}."


def test_unfinished_runs_also_give_no_rate() -> None:
    done, later = runs("gold", "bronze"), runs("gold", "gold", "gold")[2:]
    top = of(done, later)
    assert top.verdict == "baseline has 2 medals from the 2 runs with a result so far, and no complete seed."
    assert top.caveats == ["1 of 3 planned runs has no result yet."]
    assert of([], later).verdict == "No run has finished yet (1 planned run)."


def test_a_harness_failure_is_not_a_result_of_the_agent() -> None:
    top = of(runs("error", "gold"))
    assert top.verdict == "baseline has 1 medal from the 1 run with a result so far, and no complete seed."
    assert top.caveats == ["1 run has no result, because the harness or a grader failed."]


def test_data_that_differs_from_the_reference_is_reported() -> None:
    records = [replace(record, data_verified=False) for record in runs("gold", "gold", "gold")]
    (caveat,) = of(records).caveats
    assert caveat.startswith("The data of 3 of 3 competitions is not the reference's (synthetic or modified)")


def test_the_best_agent_comes_first_and_two_are_compared() -> None:
    made = {"aide": "gold", "mine": "no_medal"}
    records = [record_with(c, outcome, agent=agent) for agent, outcome in made.items() for c in LOW]
    top = of(records)
    assert top.title == "aide and mine on low, 1 March 2026"
    first, second, difference = top.verdict.split("; ")
    assert first.startswith("aide earned a medal in 22 of 22") and second.startswith(
        "mine earned no medal in 22 competitions"
    )
    assert difference == "aide is 100.0 percentage points ahead (p < 0.001)."
    equal = of([*runs("gold", "no_medal", agent="a"), *runs("no_medal", "no_medal", agent="b")])
    assert "a difference of 50.0 percentage points, which may be due to chance (p = 1, over few" in equal.verdict
    same = of([*runs("gold", "no_medal", agent="a"), *runs("no_medal", "gold", agent="b")])
    assert same.verdict.endswith("; their rates are equal.")


def test_of_several_agents_the_two_best_are_compared() -> None:
    made = {"a": "no_medal", "b": "gold", "c": "no_medal"}
    records = [record_with(c, outcome, agent=agent) for agent, outcome in made.items() for c in LOW]
    assert of(records).verdict.endswith("; b is 100.0 percentage points ahead of a (p < 0.001).")
    few = [run for agent in "abc" for run in runs("gold" if agent == "c" else "no_medal", "no_medal", agent=agent)]
    assert "50.0 percentage points between a and c, which may be due to chance (p = 1," in of(few).verdict


def test_synthetic_data_is_stated_first() -> None:
    made = runs("gold", "gold", "gold")
    records = [replace(record, data_verified=False, synthetic_data=True) for record in made]
    assert of(records).caveats == ["Synthetic data: scores say nothing about the real competition."]
    some = [records[0], *made[1:]]
    assert of(some).caveats == ["Synthetic data (1 of 3 competitions): scores say nothing about the real competition."]


@pytest.mark.parametrize(
    ("kind", "caveat"),
    [
        ("twin", "Twin data: not comparable with real scores."),
        ("synthetic", "Synthetic data: scores say nothing about the real competition."),
    ],
)
def test_generated_data_is_also_stated_for_a_grading_report(kind: str, caveat: str, tmp_path: Path) -> None:
    write_json(
        tmp_path / "grading_report.json",
        grading_report([replace(record.report, generated=kind) for record in runs("gold", "gold")]),
    )
    group = read_group(tmp_path)
    assert heading(overview([group])).caveats == [caveat]
    (data,) = (line for line in fairness_profile(group) if line.name == "data")
    assert data.detail.startswith(TWIN_DATA) is (kind == "twin")
    assert dict(run_details(group.records[0])).get("data") == (TWIN_DATA if kind == "twin" else None)


def test_many_agents_are_counted() -> None:
    records = [run for k in range(5) for run in runs("gold" if k == 3 else "no_medal", agent=f"agent-{k}")]
    top = of(records)
    assert top.title == f"agent-0, agent-1 and 3 others on {SMOKE[0].id}, 1 March 2026"
    assert top.verdict.startswith("agent-3 earned a gold medal") and top.verdict.endswith("; 2 more results below.")


@pytest.mark.parametrize(
    ("ends", "dates"),
    [
        ("2026-03-08", "1–8 March 2026"),
        ("2026-04-02", "1 March – 2 April 2026"),
        ("2027-01-02", "1 March 2026 – 2 January 2027"),
        ("once", "1 March 2026"),
    ],
)
def test_the_title_has_the_days_of_the_runs(ends: str, dates: str) -> None:
    (record,) = runs("gold")
    assert of([replace(record, ended_at=f"{ends}T00:00:00+00:00")]).title.endswith(f", {dates}")


def test_session_titles_and_notes_are_used_unless_overridden() -> None:
    group = RunGroup(
        folder=Path("g"),
        records=tuple(runs("gold")),
        manifest=Manifest(options={"--title": "Mine", "--note": "first try"}),
    )
    top = heading(overview([group]))
    assert (top.title, top.note) == ("Mine", "first try")
    top = heading(overview([group]), title="Other", note="again")
    assert (top.title, top.note) == ("Other", "again")
    assert of(runs("gold"), options={"--title": ["junk"]}).title.startswith("baseline on")


def test_an_audit_by_another_tool_needs_only_runs_and_verdicts(tmp_path: Path) -> None:
    records = runs("gold", "bronze")
    found = {"runs": [r.run_id for r in records], "findings": [{"run_id": records[0].run_id, "verdict": "look"}]}
    (tmp_path / "audit.json").write_text(json.dumps(found))
    group = RunGroup(folder=tmp_path, records=tuple(records))
    assert "Audit: 1 of 2 runs needs a look." in heading(overview([group])).caveats
    assert fairness_profile(group)[-1].detail == "1 clean, 1 look"
    (tmp_path / "audit.json").write_text('{"runs": 1}')
    assert "The audit of this group cannot be read." in heading(overview([group])).caveats
