"""The outcomes of runs: a single list shared by records, options, tables, plots and pages."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import pytest_mlebench
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.outcome import FAILURES, THRESHOLDS, Ending, Outcome
from pytest_mlebench.reports.palette import COLOURS, terminal_markup
from pytest_mlebench.results.summary import grader_defects
from tests.groups import record_with

SPACESHIP = default_catalogue()["spaceship-titanic"]


def test_an_outcome_equals_its_name_in_records() -> None:
    assert {outcome.name: 1 for outcome in Outcome} == {str(outcome): 1 for outcome in Outcome}
    assert Outcome["above_median"] == "above_median" == Outcome.above_median.name
    assert Outcome.above_median.label == "above median"


def test_outcomes_have_distinct_letters_and_are_ordered_by_rank() -> None:
    assert len({outcome.letter for outcome in Outcome}) == len(Outcome)
    assert [outcome.rank for outcome in Outcome] == list(range(len(Outcome)))
    assert [outcome.passed for outcome in Outcome] == sorted((o.passed for o in Outcome), reverse=True)
    assert THRESHOLDS == ("gold", "silver", "bronze", "median")
    assert [outcome.medal for outcome in Outcome if outcome.medal] == ["gold", "silver", "bronze"]
    assert Outcome.error in FAILURES and Outcome.no_medal not in FAILURES


def test_outcomes_have_letters_and_pass_or_fail() -> None:
    assert {str(outcome): outcome.letter for outcome in Outcome if outcome.passed} == {
        "gold": "G",
        "silver": "S",
        "bronze": "B",
        "above_median": "M",
        "no_medal": "-",
    }
    assert {str(outcome): outcome.letter for outcome in FAILURES} == {
        "invalid_submission": "I",
        "no_submission": "N",
        "timed_out": "T",
        "out_of_memory": "O",
        "crashed": "C",
        "budget_ended": "$",
        "error": "E",
    }


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_colours_for_terminal_page_and_plots(outcome: Outcome) -> None:
    assert terminal_markup(outcome.colour)
    assert outcome.colour in COLOURS


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (Ending.FINISHED, "no_submission"),
        (Ending.NOT_STARTED, "no_submission"),
        (Ending.TIMED_OUT, "timed_out"),
        (Ending.OUT_OF_MEMORY, "out_of_memory"),
        (Ending.CRASHED, "crashed"),
        (Ending.BUDGET_ENDED, "budget_ended"),
    ],
)
def test_without_a_submission_the_ending_is_the_outcome(ending: Ending, outcome: str) -> None:
    assert replace(record_with(SPACESHIP, "no_submission"), ending=ending).outcome == outcome
    assert replace(record_with(SPACESHIP, "silver"), ending=ending).outcome == "silver"


@pytest.mark.parametrize(
    ("outcome", "min_medal", "is_below"),
    [
        ("gold", "gold", False),
        ("silver", "gold", True),
        ("above_median", "bronze", True),
        ("above_median", "median", False),
        ("no_medal", "median", True),
        ("no_medal", None, False),
        ("crashed", "gold", False),  # a failure anyway
    ],
)
def test_a_graded_run_ranks_below_a_medal_that_it_did_not_earn(
    outcome: str, min_medal: str | None, is_below: bool
) -> None:
    assert Outcome[outcome].is_below(min_medal) is is_below


def test_a_grader_that_raises_is_an_error_of_the_grader_and_not_a_result_of_the_agent() -> None:
    invalid = record_with(SPACESHIP, "invalid_submission")
    broken = replace(invalid, report=replace(invalid.report, grader_defect=True, error="KeyError: 'x'"))
    assert broken.outcome is Outcome.error
    assert broken.reason == "the grader of spaceship-titanic is defective: KeyError: 'x'"
    assert grader_defects([invalid, broken]) == [
        "the grader of spaceship-titanic is defective: 1 run could not be graded (KeyError: 'x')"
    ]


def test_outcomes_are_listed_in_one_module() -> None:
    package = Path(pytest_mlebench.__file__).parent
    names = re.compile(r"\b(timed_out|invalid_submission|no_submission)\b")
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".js", ".html", ".css")]
    assert len(files) > 100
    using = {path.relative_to(package).as_posix() for path in files if names.search(path.read_text())}
    assert using == {"records/outcome.py", "records/record.py"}  # the list, and the rule that selects an outcome
