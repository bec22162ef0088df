"""When values tell the truth and when they do not: the rules of the search for leaks, at their bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.gate import leaks
from pytest_mlebench.gate.leaks import equals, find_leaks, is_sorted, neighbours_agree, sample_order, tells, true_values
from pytest_mlebench.gate.metadata import CONTENT, ORDER, ROWS, Attack
from pytest_mlebench.gate.public_files import PublicFile
from tests.grading.test_leaks import dataset, without_classifier

__all__ = ["dataset", "without_classifier"]

pytestmark = pytest.mark.usefixtures("without_classifier")


def test_values_stand_for_the_truth_where_each_stands_for_one_of_it() -> None:
    assert tells(["a", "b"] * 15, [0, 1] * 15) and tells(["a", "b", "c"] * 20, [0, 1, 1] * 20)
    assert not tells(["a", "b", "b"] * 10, [0, 1] * 15)
    assert not tells(["a"] * 60, [0, 1] * 30), "one value tells nothing"
    assert not tells(["a", "b"] * 5, [0, 1] * 5), "ten rows may agree by chance"


def test_each_further_value_needs_more_rows_before_it_tells() -> None:
    """Eleven values could stand for two classes in 2,048 ways, two values in four."""
    truth = ["a" if k % 11 < 6 else "b" for k in range(33)]
    assert not tells([k % 11 for k in range(33)], truth)
    assert tells([k % 11 < 6 for k in range(33)], truth)
    assert tells([k % 11 for k in range(66)], truth * 2)


def test_a_third_as_many_values_as_rows_tell_and_more_do_not() -> None:
    truth = [k % 20 for k in range(60)]
    assert tells(truth, truth)
    assert not tells([k % 21 for k in range(60)], truth)
    for values, rows in ((20, 59), (25, 60), (28, 60)):
        assert not tells([k % values for k in range(rows)], [k % values for k in range(rows)])


@pytest.mark.parametrize(("wrong", "told"), [(0, True), (1, True), (2, False), (3, False)])
def test_one_in_a_hundred_that_guessing_misses_may_be_wrong(wrong: int, told: bool) -> None:
    truth = [0, 1] * 100
    values = [1 - true if k < wrong else true for k, true in enumerate(truth)]
    assert tells(values, truth) == told
    assert equals(list(map(str, values)), list(map(str, truth))) == (wrong < 2)


def test_a_truth_that_is_nearly_always_the_same_is_told_by_nothing_that_misses_the_rest() -> None:
    rare = [1] * 5 + [0] * 295
    assert tells(["x"] * 5 + ["y"] * 295, rare)
    assert not tells(["x"] * 4 + ["y"] * 296, rare)


def test_values_equal_the_truth_as_texts_numbers_or_by_a_straight_line() -> None:
    truth = [str(k * k % 31) for k in range(40)]
    numbers = [float(text) for text in truth]
    assert equals(truth, truth) and equals([f"{number:.3f}" for number in numbers], truth)
    assert equals([str(7 - 3 * number) for number in numbers], truth)
    assert not equals([str(number**2) for number in numbers], truth)
    assert not equals([str(k) for k in range(40)], truth)
    assert not equals(["1"] * 40, truth) and not equals(truth, ["1"] * 40)
    assert not equals(["x", *map(str, numbers[1:])], truth), "a text among them is not a number"
    assert not equals([str(number * 1.001) for number in numbers[:9]], truth[:9]), "nine values fall on many lines"
    assert not equals(["inf", *map(str, numbers[1:])], truth)


@pytest.mark.parametrize(("values", "found"), [(8, False), (9, False), (10, True), (11, True)])
def test_a_straight_line_is_one_through_ten_values(values: int, found: bool) -> None:
    truth = [str(k % values) for k in range(60)]
    assert equals([str(2 * (k % values) + 1) for k in range(60)], truth) == found


def test_nearly_equal_numbers_are_equal_to_nine_digits() -> None:
    truth = [str(k % 5 + 1) for k in range(60)]
    assert equals([repr(float(text) * (1 + 5e-10)) for text in truth], truth)
    assert not equals([repr(float(text) * (1 + 5e-9)) for text in truth], truth)
    assert not equals(["1.0", "2.0"], ["1", "2"]), "two rows are too few"
    assert equals(["1.0", "2.0", "3.0"], ["1", "2", "3"])


def test_truths_are_sorted_as_numbers_or_texts_up_or_down() -> None:
    numbers = [str(k) for k in range(30)]
    assert is_sorted(numbers) and is_sorted(numbers[::-1]) and is_sorted(["b"] * 20 + ["a"] * 20)
    assert is_sorted([text for text in numbers for _ in range(2)])
    assert not is_sorted([*numbers[1:], numbers[0]]) and not is_sorted(["1", "2"] * 20)
    assert not is_sorted([*numbers[15:], *numbers[:15]])
    assert not is_sorted(["a"] * 5 + ["b"] * 5), "one order in 252 is no wonder"
    assert not is_sorted(["a"] * 40)
    assert is_sorted(["a"] * 11 + ["b"] * 12) and not is_sorted(["a"] * 11 + ["b"] * 11), "orders: 1352078 and 705432"


def test_neighbours_agree_from_thirty_rows_on() -> None:
    blocks = ["a"] * 50 + ["b"] * 50
    assert neighbours_agree(range(100), blocks) and neighbours_agree([k // 2 for k in range(100)], blocks)
    assert not neighbours_agree([0] * 100, blocks) and not neighbours_agree(range(100), ["a", "b"] * 50)
    assert not neighbours_agree(range(100), ["a"] * 100)
    for rows in (29, 30):
        few = (["a"] * 10 + ["b"] * 10 + ["c"] * 10)[:rows]
        assert neighbours_agree(range(rows), few) == (rows == 30)
    assert neighbours_agree([(k * 37) % 100 for k in range(100)], [blocks[(k * 37) % 100] for k in range(100)])


def test_many_numbers_agree_on_the_same_side_of_their_median() -> None:
    assert neighbours_agree(range(100), [str(k) for k in range(100)])
    assert not neighbours_agree(range(100), [str((k * 37) % 100) for k in range(100)])
    assert not neighbours_agree(
        range(100), [str(k) for pair in zip(range(50), range(50, 100), strict=True) for k in pair]
    )


@pytest.mark.parametrize(("within", "level"), [(44, False), (60, True)])
def test_six_standard_deviations_are_no_chance(within: int, level: bool) -> None:
    """Of 99 pairs of neighbours, 49 agree by chance; the deviation is about five."""
    blocks = ["a", "b"] * 50 if not level else (["a"] * 5 + ["b"] * 5) * 10
    assert neighbours_agree(range(100), blocks) == level, within
    runs = [*[4] * 20, *[5] * 4]  # 76 of 99 agree: 5.4 standard deviations
    assert not neighbours_agree(range(100), ["ab"[k % 2] for k, own in enumerate(runs) for _ in range(own)])


def test_few_numbers_are_classes_of_their_own() -> None:
    assert not neighbours_agree(range(100), ["0", "1"] * 30 + ["2"] * 40)


def _truth(dataset: Dataset) -> pd.DataFrame:
    return pd.read_csv(dataset.answers)


def _texts(length: int) -> Callable[[Dataset], None]:
    def planted(dataset: Dataset) -> None:
        for path in (dataset.answers, dataset.sample_submission):
            rows = pd.read_csv(path)
            texts = [f"{k * 7919 % 100_000:x}".rjust(length, "q")[:length] for k in range(len(rows))]
            rows["text"] = texts if path == dataset.answers else ""
            rows.to_csv(path, index=False)
        (dataset.public / "model.bin").write_bytes(
            b"\0".join([b"", *(_truth(dataset)["text"].str.encode("ascii")), b""])
        )

    return planted


def _in_binary(change: Callable[[list[str]], list[str]]) -> Callable[[Dataset], None]:
    def planted(dataset: Dataset) -> None:
        texts = change(_truth(dataset)["text"].tolist())
        (dataset.public / "model.bin").write_bytes(b"\0".join([b"\x07", *(text.encode() for text in texts), b"\x07"]))

    return planted


ANYWHERE: dict[str, tuple[Callable[[Dataset], Any], bool]] = {
    "texts of six letters": (_texts(6), True),
    "texts of five letters": (_texts(5), False),
    "texts that stand in others first": (
        _in_binary(lambda texts: [*(f"x{text}" for text in texts), *(f"{text}y" for text in texts), *texts]), True),
    "texts within others": (_in_binary(lambda texts: [f"x{text}" for text in texts]), False),
    "texts with a letter behind": (_in_binary(lambda texts: [f"{text}y" for text in texts]), False),
    "all but three": (_in_binary(lambda texts: texts[3:]), True),
    "all but six": (_in_binary(lambda texts: texts[6:]), False),
    "none": (_in_binary(lambda texts: []), False),
}  # fmt: skip


@pytest.mark.parametrize("name", ANYWHERE)
def test_long_texts_are_found_anywhere_as_fields_of_their_own(name: str, dataset: Dataset) -> None:
    plant, found = ANYWHERE[name]
    plant(dataset)
    said = [line for line in find_leaks(dataset) if "hold the true values of 'text'" in line]
    assert said == (["public/model.bin hold the true values of 'text'"] if found else [])


def test_text_files_with_an_answer_a_line_are_found_with_and_without_a_heading(dataset: Dataset) -> None:
    labels = _truth(dataset)["label"].tolist()
    other = [{"cat": "0", "dog": "1"}[label] for label in labels]
    for name, lines, end in (
        ("a", ["k", *other], "\n"),
        ("b", other, "\n"),
        ("c", other, ""),
        ("d", ["k", *other], ""),
    ):
        path = dataset.public / f"{name}.txt"
        path.write_text("\n".join(lines) + end)
        assert any(f"{path.name}: column" in line for line in find_leaks(dataset)), name
        path.unlink()
    for name, lines in (("e", ["x", "k", *other]), ("f", other[:-1])):
        path = dataset.public / f"{name}.txt"
        path.write_text("\n".join(lines) + "\n")
        assert not any(path.name in line for line in find_leaks(dataset)), name
        path.unlink()


def test_nothing_is_found_where_nothing_tells(dataset: Dataset) -> None:
    assert find_leaks(dataset) == []


def test_a_column_of_more_values_than_the_truth_does_not_stand_for_it(dataset: Dataset) -> None:
    rows = _truth(dataset)
    for values in (1, 3):
        codes = [f"{label}{k % values}"[::-1] for k, label in enumerate(rows["label"])]
        rows[["id"]].assign(k=codes).to_csv(dataset.public / "meta.csv", index=False)
        assert any("meta.csv: column 'k' stands for" in line for line in find_leaks(dataset)) == (values == 1)


def test_the_description_is_not_searched(dataset: Dataset) -> None:
    texts = "\n".join(_truth(dataset)["text"].tolist())
    (dataset.public / "description.md").write_text(texts)
    assert find_leaks(dataset) == []
    (dataset.public / "description.txt").write_text(texts)
    assert "public/description.txt hold the true values of 'text'" in find_leaks(dataset)


def test_a_copy_of_the_answers_is_one_under_any_name(dataset: Dataset) -> None:
    (dataset.public / "deep").mkdir()
    (dataset.public / "deep/x.bin").write_bytes(dataset.answers.read_bytes())
    (dataset.public / "empty").touch()
    (dataset.private / "empty").touch()
    found = find_leaks(dataset)
    assert f"public/deep/x.bin is a copy of private/{dataset.answers.name}" in found
    assert not any("empty" in line for line in found)


def test_the_truth_is_what_a_submission_is_asked_for(dataset: Dataset, tmp_path: Path) -> None:
    truth = true_values(dataset)
    rows = _truth(dataset)
    assert list(truth) == ["label", "text"] and truth["label"] == dict(zip(rows["id"], rows["label"], strict=True))
    assert sample_order(dataset, truth) == rows["id"].tolist()
    rows.iloc[::-1].assign(label="cat", text="").to_csv(dataset.sample_submission, index=False)
    assert sample_order(dataset, truth) == rows["id"].tolist()[::-1]
    rows.to_csv(dataset.sample_submission, index=False)
    assert true_values(dataset) == {}, "what the sample submission shows is asked of nobody"
    assert sample_order(dataset, {}) == []


@pytest.mark.parametrize(
    ("kind", "right", "p", "found"),
    [
        (ORDER, 51, 1e-9, True),
        (ORDER, 100, 1e-5, False),
        (CONTENT, 76, 1e-9, True),
        (CONTENT, 75, 1e-9, False),
        (ROWS, 76, 1e-9, True),
        (ROWS, 76, 1e-5, False),
    ],
)
def test_what_may_follow_from_content_is_a_leak_if_it_tells_more_than_half(
    kind: str, right: int, p: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = Attack("value of 'y'", kind, right, 100, 50, p, "inode")
    monkeypatch.setattr(leaks, "attacks", lambda *_: iter([attack]))
    assert bool([*leaks._by_a_classifier([], {}, [])]) == found


IDS: dict[str, Callable[[int, int], str]] = {
    "length of the ids": lambda k, own: f"x{'0' * own}-{k:05}"[-7 - own :],
    "first character of the ids": lambda k, own: f"{'pq'[own]}{k * 7919 % 10007:05}",
    "last character of the ids": lambda k, own: f"{k * 7919 % 10007:05}{'pq'[own]}",
    "parity of the ids": lambda k, own: f"{2 * (k * 7919 % 10007) + own:05}x",
    "part 2 of the ids": lambda k, own: f"{k * 7919 % 10007:05}_{'pq'[own]}_{k}",
}


@pytest.mark.parametrize("what", IDS)
def test_the_form_of_ids_tells(what: str, dataset: Dataset) -> None:
    truth = {"y": {IDS[what](k, own): "ab"[own] for k, own in enumerate([0, 1, 1, 0, 1, 0] * 10)}}
    assert f"the {what} tells the true values of 'y'" in [*leaks._in_ids(dataset, truth, [])]
    several = {f"{'pqrs'[2 * own + k % 2]}{k:03}": "ab"[own] for k, own in enumerate([0, 1, 1, 0, 1, 0] * 10)}
    assert "the first character of the ids tells the true values of 'y'" in [
        *leaks._in_ids(dataset, {"y": several}, [])
    ]
    other = {"y": {IDS[what](k, own): "ab"[k % 2] for k, own in enumerate([0, 1, 1, 0, 1, 0] * 10)}}
    assert not any(what in line for line in leaks._in_ids(dataset, other, []))


def test_ids_are_in_the_first_column_or_the_second_after_one_without_a_name(dataset: Dataset) -> None:
    rows, asked = _truth(dataset), pd.read_csv(dataset.sample_submission)
    asked.reset_index(names="").to_csv(dataset.sample_submission, index=False)
    assert true_values(dataset)["label"] == dict(zip(rows["id"], rows["label"], strict=True))
    asked.assign(a=0, b=0)[["a", "b", "id", "label"]].to_csv(dataset.sample_submission, index=False)
    assert true_values(dataset) == {}


def test_true_values_are_texts_as_they_stand(dataset: Dataset) -> None:
    rows = _truth(dataset)
    rows["label"] = rows["label"].map({"cat": "NA", "dog": "007"})
    rows.to_csv(dataset.answers, index=False)
    assert {*true_values(dataset)["label"].values()} == {"NA", "007"}


def test_lines_count_in_files_of_lines_with_one_more_or_less() -> None:
    for suffix in ("csv", "tsv", "txt", "jsonl", "ndjson", "bin"):
        for lines in range(7):
            entry = PublicFile(f"a.{suffix}", b"x\n" * lines)
            assert leaks._has_lines(entry, 3) == (suffix != "bin" and 2 <= lines <= 4)


def test_a_column_names_half_of_the_ids_or_files_after_them() -> None:
    known = {f"id{k}" for k in range(10)}
    for count, found in ((4, False), (5, True)):
        names = [*(f"id{k}" for k in range(count)), *"vwxyz"]
        for named in (names, [f"images/{name}.png" for name in names]):
            key, places = leaks._places(pd.DataFrame({"k": range(len(named)), "file": named}), known)
            assert (key, places) == (("file", {f"id{k}": k for k in range(count)}) if found else (None, {}))
    mixed = ["id0", *(f"id{k}.png" for k in range(1, 10))]
    assert leaks._places(pd.DataFrame({"file": mixed}), known) == (None, {})
    assert leaks._places(pd.DataFrame({"file": ["id0"]}), {"id0"}) == (None, {}), "one row is not a table of ids"


def test_a_table_that_lacks_an_id_is_read_by_the_ids_that_it_has(dataset: Dataset) -> None:
    rows = _truth(dataset).drop(columns="text")
    rows.iloc[:-1].rename(columns={"label": "k"}).to_csv(dataset.public / "meta.csv", index=False)
    assert "public/meta.csv holds the true values of 'label'" in find_leaks(dataset)
