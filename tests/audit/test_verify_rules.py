"""Rules for comparing the claims of a bundle with its files, with boundary values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.bundles import verify
from pytest_mlebench.extras.bundles.bundle import Bundle, BundleIndex
from pytest_mlebench.extras.bundles.card import Check, CheckResult
from pytest_mlebench.records.outcome import Report, TimelinePoint
from pytest_mlebench.records.record import SUBMISSION, RunRecord
from tests.groups import record_with


def unequal(told: Any, found: Any) -> list[str]:
    return [*verify._unequal(told, found, "")]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}),
        ({"a": 1.00002, "b": 0.00002}, {"a": 1, "b": 0}),
        ({"a": 200_004}, {"a": 200_000}),
        ({"created_at": 1, "submission_path": 2, "error": 3, "a": None}, {}),
        (float("inf"), float("inf")),
    ],
)
def test_values_are_equal_up_to_rounding_and_machine(told: Any, found: Any) -> None:
    assert unequal(told, found) == unequal(found, told) == []


@pytest.mark.parametrize(
    ("told", "found", "said"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, ["a[1].b is 'x', but 'y' follows from the records"]),
        ({"a": 1.00003}, {"a": 1}, ["a is 1.00003, but 1 follows from the records"]),
        ({"a": 0.00003}, {"a": 0}, ["a is 3e-05, but 0 follows from the records"]),
        ({"a": 200_005}, {"a": 200_000}, ["a is 200005, but 200000 follows from the records"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a has 2 entries, but 1 follow from the records"]),
        ({"a": [2]}, {"a": []}, ["a has 1 entries, but 0 follow from the records"]),
        ({"a": 5}, {"a": "x"}, ["a is 5, but 'x' follows from the records"]),
        ({"a": "x"}, {"a": 5}, ["a is 'x', but 5 follows from the records"]),
        ({"a": True}, {"a": 1}, ["a is True, but 1 follows from the records"]),
        ({"a": 0}, {"a": False}, ["a is 0, but False follows from the records"]),
        ({"a": True}, {"a": 2}, ["a is True, but 2 follows from the records"]),
        ({"a": "xy"}, {"a": ["x", "y"]}, ["a is 'xy', but ['x', 'y'] follows from the records"]),
        ({"a": ["x", "y"]}, {"a": "xy"}, ["a is ['x', 'y'], but 'xy' follows from the records"]),
        ({"a": [1]}, {"a": 1}, ["a is [1], but 1 follows from the records"]),
        ({"a": []}, {"a": {}}, ["a is [], but {} follows from the records"]),
        ({"a": 1}, {"a": [1]}, ["a is 1, but [1] follows from the records"]),
        ({"a": {}}, {"a": []}, ["a is {}, but [] follows from the records"]),
        ({"b": 1, "a": 1}, {}, ["a is 1, but None follows from the records",
                                "b is 1, but None follows from the records"]),
        ({"a": 5.0}, {"a": float("inf")}, ["a is 5.0, but inf follows from the records"]),
        ({"a": float("-inf")}, {"a": float("inf")}, ["a is -inf, but inf follows from the records"]),
        ({"a": float("nan")}, {"a": 5.0}, ["a is nan, but 5.0 follows from the records"]),
        ({"a": "x" * 200}, {"a": 1}, [f"a is '{'x' * 99}, but 1 follows from the records"]),
    ],
)  # fmt: skip
def test_different_values_are_named_with_their_position(told: Any, found: Any, said: list[str]) -> None:
    assert unequal(told, found) == said


def test_values_from_another_version_are_compared_in_common_fields() -> None:
    values = {"a": 1, "b": [{"c": 1, "d": 2}], "e": [1, 2]}
    assert verify._common(values, {"a": 9, "b": [{"c": 9}], "e": [1]}) == {"a": 1, "b": [{"c": 1}], "e": [1, 2]}
    assert verify._common({"a": 1}, "a") == {"a": 1} and verify._common("ab", [1, 2]) == "ab"
    assert verify._common([1], 5) == [1] and verify._common([1], [5, 6]) == [1]
    assert verify._common(values, []) == values and verify._common("x", {"a": 1}) == "x"


def test_a_check_reports_the_number_of_differences() -> None:
    assert Check.of("x", [], "all is well") == Check("x", CheckResult.verified, "all is well")
    assert Check.of("x", iter("a"), "") == Check("x", CheckResult.differs, "1 difference", ("a",))
    assert Check.of("x", iter("ab"), "") == Check("x", CheckResult.differs, "2 differences", ("a", "b"))
    assert Check.of("x", "a", "", unchecked="why") == Check("x", CheckResult.differs, "1 difference", ("a",))
    assert Check.of("x", "", "", unchecked="why", lacking="b") == Check("x", CheckResult.unchecked, "why", ("b",))


def test_the_index_and_the_signature_are_separate_checks(tmp_path: Path) -> None:
    index = BundleIndex(format="", version=1, made_by="", made_at="", run_group="g", files=(), left_out=())
    bundle = Bundle(index, "ab12", b"", None, tmp_path)
    whole = Check("index", CheckResult.verified, "0 files, each with the SHA-256 in the index")
    assert [*verify._origin(bundle, None, None)] == [*verify._origin(bundle, "AB12", None)] == [whole]
    (other,) = verify._origin(bundle, "ab13", None)
    assert (other.name, other.result) == ("index", CheckResult.differs)
    assert other.detail == "it does not have the digest that you gave"
    assert other.reasons[0].startswith("you gave ab13; ")
    unsigned = "it is not signed, but --allowed-signers requires a signature"
    assert [*verify._origin(bundle, None, tmp_path)] == [whole, Check("signature", CheckResult.differs, unsigned)]


def test_a_timeline_is_graded_once_for_each_content(tmp_path: Path) -> None:
    record = record_with(default_catalogue()["smoke-digits"], "gold")
    (tmp_path / SUBMISSION).parent.mkdir()
    (tmp_path / SUBMISSION).write_text("id")
    graded: list[Path] = []

    def grade(record: RunRecord, path: Path) -> Report:
        graded.append(path)
        return record.report

    def wrong(points: int) -> list[tuple[str, bool]]:
        own = replace(record, timeline=(TimelinePoint(seconds=1.0, file=SUBMISSION, score=0.5),) * points)
        return [*verify._timeline(own, tmp_path, cast("Any", SimpleNamespace(grade=grade)), False)]

    assert len(wrong(201)) > 200 and len(graded) == 1
    assert wrong(202) == [("its timeline has 202 points, more than any session takes", False)]
