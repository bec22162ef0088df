"""The rules for when values reveal the true ones, tested at their limits."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.gate import leaks, public_files
from pytest_mlebench.gate.leaks import equals, find_leaks, is_sorted, neighbours_agree, sample_order, tells, true_values
from pytest_mlebench.gate.metadata import CONTENT, ORDER, ROWS, Attack, attacks
from pytest_mlebench.gate.public_files import PublicFile, entries
from tests.grading.test_leaks import YAML, dataset, without_classifier

__all__ = ["dataset", "without_classifier"]

pytestmark = pytest.mark.usefixtures("without_classifier")


def test_values_encode_the_truth_if_each_maps_to_one_true_value() -> None:
    assert tells(["a", "b"] * 15, [0, 1] * 15) and tells(["a", "b", "c"] * 20, [0, 1, 1] * 20)
    assert not tells(["a", "b", "b"] * 10, [0, 1] * 15)
    assert not tells(["a"] * 60, [0, 1] * 30), "one value reveals nothing"
    assert tells(["a", "b"] * 5, [0, 1] * 5) is False, "ten rows may agree by chance"


def test_each_additional_value_needs_more_rows() -> None:
    """Eleven values can encode two classes in 2,048 ways, two values in four."""
    truth = ["a" if k % 11 < 6 else "b" for k in range(33)]
    assert not tells([k % 11 for k in range(33)], truth)
    assert tells([k % 11 < 6 for k in range(33)], truth)
    assert tells([k % 11 for k in range(66)], truth * 2)


def test_values_are_compared_up_to_a_third_of_the_rows() -> None:
    truth = [k % 20 for k in range(60)]
    assert tells(truth, truth)
    assert not tells([k % 21 for k in range(60)], truth)
    with pytest.raises(ValueError, match="zip"):
        tells(truth, [*truth, 1])
    for values, rows in ((20, 59), (25, 60), (28, 60)):
        assert not tells([k % values for k in range(rows)], [k % values for k in range(rows)])


@pytest.mark.parametrize(("wrong", "told"), [(0, True), (1, True), (2, False), (3, False)])
def test_one_percent_of_the_rows_that_guessing_misses_may_be_wrong(wrong: int, told: bool) -> None:
    truth = [0, 1] * 100
    values = [1 - true if k < wrong else true for k, true in enumerate(truth)]
    assert tells(values, truth) == told
    assert tells(values[:198], truth[:198]) == (wrong == 0)
    assert equals(list(map(str, values)), list(map(str, truth))) == (wrong < 2)
    assert equals([f"x{k}" for k in values[:100]], [f"x{k}" for k in truth[:100]]) == (wrong == 0)
    assert equals([f"{k}.0" for k in values[:100]], [str(k) for k in truth[:100]]) == (wrong == 0)


def test_values_that_miss_rare_truths_are_not_a_leak() -> None:
    rare = [1] * 5 + [0] * 295
    assert tells(["x"] * 5 + ["y"] * 295, rare)
    assert not tells(["x"] * 4 + ["y"] * 296, rare)


def test_values_equal_the_truth_as_texts_numbers_or_by_a_linear_relation() -> None:
    truth = [str(k * k % 31) for k in range(40)]
    numbers = [float(text) for text in truth]
    assert equals(truth, truth) and equals([f"{number:.3f}" for number in numbers], truth)
    assert equals([str(7 - 3 * number) for number in numbers], truth)
    assert not equals([str(number**2) for number in numbers], truth)
    assert not equals([str(k) for k in range(40)], truth)
    assert equals(["1"] * 40, truth) is False and not equals(truth, ["1"] * 40)
    assert not equals(["1", "1.0"] * 20, truth), "one number in two spellings"
    assert not equals(["a"] * 199 + ["b"], ["a"] * 200) and not equals(["a"] * 200, ["a"] * 199 + ["b"])
    assert equals([str(k) for k in range(40)], [f"x{k}" for k in range(40)]) is False
    with pytest.raises(ValueError, match="zip"):
        equals(truth, [*truth, "1"])
    assert not equals(["x", *map(str, numbers[1:])], truth), "a text among them is not a number"
    assert not equals([str(number * 1.001) for number in numbers[:9]], truth[:9]), "nine values fall on many lines"
    assert not equals(["inf", *map(str, numbers[1:])], truth)


@pytest.mark.parametrize(("values", "found"), [(8, False), (9, False), (10, True), (11, True)])
def test_a_linear_relation_needs_ten_values(values: int, found: bool) -> None:
    truth = [str(k % values) for k in range(60)]
    assert equals([str(2 * (k % values) + 1) for k in range(60)], truth) == found


def test_nearly_equal_numbers_are_equal_to_nine_digits() -> None:
    truth = [str(k % 5 + 1) for k in range(60)]
    assert equals([repr(float(text) * (1 + 5e-10)) for text in truth], truth)
    assert equals([repr(float(text) * (1 + 5e-9)) for text in truth], truth) is False
    tiny = [f"{k % 5 + 1}e-12" for k in range(60)]
    assert not equals(tiny[1:] + tiny[:1], tiny)
    assert not equals(["1.0", "2.0"], ["1", "2"]), "two rows are too few"
    assert equals(["1.0", "2.0", "3.0"], ["1", "2", "3"])


def test_truths_may_be_sorted_as_numbers_or_texts_in_either_direction() -> None:
    numbers = [str(k) for k in range(30)]
    assert is_sorted(numbers) and is_sorted(numbers[::-1]) and is_sorted(["b"] * 20 + ["a"] * 20)
    assert is_sorted([text for text in numbers for _ in range(2)])
    assert not is_sorted([*numbers[1:], numbers[0]]) and not is_sorted(["1", "2"] * 20)
    assert not is_sorted([*numbers[15:], *numbers[:15]])
    assert is_sorted(["a"] * 5 + ["b"] * 5) is False, "one order in 252 can occur by chance"
    assert not is_sorted(["a"] * 40)
    assert is_sorted(["a"] * 11 + ["b"] * 12) and not is_sorted(["a"] * 11 + ["b"] * 11), "orders: 1352078 and 705432"


def test_distinct_texts_are_compared_with_neighbours_by_emptiness() -> None:
    texts = [f"{k} 1" for k in range(50)]
    assert neighbours_agree(range(100), [""] * 50 + texts)
    assert not neighbours_agree(range(100), [own for text in texts for own in ("", text)])
    assert not neighbours_agree(range(50), texts)


def test_neighbours_are_compared_from_thirty_rows_on() -> None:
    blocks = ["a"] * 50 + ["b"] * 50
    assert neighbours_agree(range(100), blocks) and neighbours_agree([k // 2 for k in range(100)], blocks)
    assert not neighbours_agree([0] * 100, blocks) and not neighbours_agree(range(100), ["a", "b"] * 50)
    assert not neighbours_agree(range(100), ["a"] * 100)
    assert not neighbours_agree(range(100), ["b"] * 40 + ["a"] * 2 + ["b"] * 58), "adjacent in one order in fifty"
    assert not neighbours_agree(range(100), ["b"] * 40 + ["a"] * 5 + ["b"] * 55), "96 of 75,287,520 orders"
    assert neighbours_agree(range(100), ["b"] * 40 + ["a"] * 6 + ["b"] * 54), "95 of 1,192,052,400 orders"
    assert neighbours_agree(range(100), ["b"] * 60 + [str(k // 2) for k in range(40)]), (
        "twenty pairs are found together"
    )

    for rows in (29, 30):
        few = (["a"] * 10 + ["b"] * 10 + ["c"] * 10)[:rows]
        assert neighbours_agree(range(rows), few) == (rows == 30)
    assert neighbours_agree([(k * 37) % 100 for k in range(100)], [blocks[(k * 37) % 100] for k in range(100)])


def test_rare_classes_can_be_adjacent_by_chance() -> None:
    random = np.random.default_rng(0)
    for rare in ([3], [5], [8, 3], [4, 3, 3]):
        truth = ["0"] * (500 - sum(rare)) + [str(c) for c, own in enumerate(rare, 1) for _ in range(own)]
        assert not any(neighbours_agree(random.permutation(500).tolist(), truth) for _ in range(300)), rare


def test_many_numbers_agree_on_the_same_side_of_their_median() -> None:
    assert neighbours_agree(range(100), [str(k) for k in range(100)])
    assert not neighbours_agree(range(100), [str((k * 37) % 100) for k in range(100)])
    assert not neighbours_agree(
        range(100), [str(k) for pair in zip(range(50), range(50, 100), strict=True) for k in pair]
    )


@pytest.mark.parametrize(("within", "level"), [(44, False), (60, True)])
def test_six_standard_deviations_are_not_chance(within: int, level: bool) -> None:
    """Of 99 pairs of neighbours, 49 agree by chance; the deviation is about five."""
    blocks = ["a", "b"] * 50 if not level else (["a"] * 5 + ["b"] * 5) * 10
    assert neighbours_agree(range(100), blocks) == level, within
    runs = [*[4] * 20, *[5] * 4]  # 76 of 99 agree: 5.4 standard deviations
    assert not neighbours_agree(range(100), ["ab"[k % 2] for k, own in enumerate(runs) for _ in range(own)])


@pytest.mark.parametrize(("a", "b"), [(37, 56), (23, 52), (27, 37), (44, 50), (61, 61), (30, 80)])
def test_neighbours_of_two_classes_agree_if_wald_wolfowitz_finds_too_few_runs(a: int, b: int) -> None:
    n, twice = a + b, 2 * a * b
    mean, variance = twice / n + 1, twice * (twice - n) / (n * n * (n - 1))
    for runs in range(2, 2 * a):
        short = (["a", "b"] * a)[: runs - 2]  # of one row each, after two long ones
        truth = ["a"] * (a - short.count("a")) + ["b"] * (b - short.count("b")) + short
        assert neighbours_agree(range(n), truth) == ((mean - runs) / variance**0.5 > 6), runs


def test_few_distinct_numbers_are_treated_as_classes() -> None:
    assert not neighbours_agree(range(100), ["0", "1"] * 30 + ["2"] * 40)
    for values, many in ((25, False), (26, True)):  # a quarter of the rows; equal values are never neighbours
        truth = [str(k % 12) if k < 50 else str(12 + k % (values - 12)) for k in range(100)]
        assert neighbours_agree(range(100), truth) == many
    assert neighbours_agree(range(100), ["0"] * 55 + [str(k + 1) for k in range(45)]), "the median is one of many zeros"


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
    "texts followed by a letter": (_in_binary(lambda texts: [f"{text}y" for text in texts]), False),
    "all but three": (_in_binary(lambda texts: texts[3:]), True),
    "all but six": (_in_binary(lambda texts: texts[6:]), False),
    "none": (_in_binary(lambda texts: []), False),
}  # fmt: skip


@pytest.mark.parametrize("name", ANYWHERE)
def test_long_texts_are_found_in_any_file_as_separate_fields(name: str, dataset: Dataset) -> None:
    plant, found = ANYWHERE[name]
    plant(dataset)
    said = [line for line in find_leaks(dataset) if "the true values of 'text'" in line]
    assert said == (["public/model.bin contains the true values of 'text'"] if found else [])


def test_text_files_with_one_answer_per_line_are_found_with_and_without_a_header(dataset: Dataset) -> None:
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


def test_nothing_is_found_without_a_leak(dataset: Dataset) -> None:
    assert find_leaks(dataset) == []


def test_a_column_with_more_values_than_the_truth_does_not_encode_it(dataset: Dataset) -> None:
    rows = _truth(dataset)
    for values in (1, 3):
        codes = [f"{label}{k % values}"[::-1] for k, label in enumerate(rows["label"])]
        rows[["id"]].assign(k=codes).to_csv(dataset.public / "meta.csv", index=False)
        assert any("meta.csv: column 'k' encodes" in line for line in find_leaks(dataset)) == (values == 1)


def test_the_description_is_not_searched(dataset: Dataset) -> None:
    texts = "\n".join(_truth(dataset)["text"].tolist())
    (dataset.public / "description.md").write_text(texts)
    assert find_leaks(dataset) == []
    (dataset.public / "description.txt").write_text(texts)
    assert "public/description.txt contains the true values of 'text'" in find_leaks(dataset)


def test_the_sample_submission_is_neither_searched_nor_reported_as_a_copy(dataset: Dataset, tmp_path: Path) -> None:
    """It may repeat texts of the test set, and most answers may equal them."""
    rows = _truth(dataset)
    rows["text"] = [*rows["text"][:-3], "", "", ""]
    dataset.sample_submission.unlink()
    yaml = dataset.competition.folder / "competition.yaml"
    yaml.write_text(f"{YAML}sample_submission: public/guesses.csv\n")
    other = Dataset(Competition.load(yaml), tmp_path / "data")
    rows.assign(label="cat").to_csv(other.sample_submission, index=False)
    (other.private / "guesses.csv").write_bytes(other.sample_submission.read_bytes())
    assert find_leaks(other) == []
    (other.public / "more.csv").write_bytes(other.sample_submission.read_bytes()[:-1])
    assert "public/more.csv contains the true values of 'text'" in find_leaks(other)


def test_a_copy_of_the_answers_is_found_under_any_name(dataset: Dataset) -> None:
    (dataset.public / "deep").mkdir()
    (dataset.public / "deep/x.bin").write_bytes(dataset.answers.read_bytes())
    (dataset.public / "empty").touch()
    (dataset.private / "empty").touch()
    found = find_leaks(dataset)
    assert f"public/deep/x.bin is a copy of private/{dataset.answers.name}" in found
    assert not any("empty" in line for line in found)


def test_the_truth_is_the_columns_that_a_submission_must_predict(dataset: Dataset, tmp_path: Path) -> None:
    truth = true_values(dataset)
    rows = _truth(dataset)
    assert list(truth) == ["label", "text"] and truth["label"] == dict(zip(rows["id"], rows["label"], strict=True))
    assert sample_order(dataset, truth) == rows["id"].tolist()
    rows.iloc[::-1].assign(label="cat", text="").to_csv(dataset.sample_submission, index=False)
    assert sample_order(dataset, truth) == rows["id"].tolist()[::-1]
    rows.to_csv(dataset.sample_submission, index=False)
    assert true_values(dataset) == {}, "submissions need not predict what the sample submission shows"
    assert sample_order(dataset, {}) == []


SEEN = {
    ORDER: "times, inodes, modes and order of files",
    CONTENT: "sizes, headers and folders of files",
    ROWS: "form of the ids and the order of rows",
}


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
def test_metadata_that_may_follow_from_content_is_a_leak_above_half(
    kind: str, right: int, p: float, found: bool, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = Attack("value of 'y'", kind, right, 100, 50, p, "inode")
    given: list[Any] = []

    def attacks(*own: Any) -> Iterator[Attack]:
        given.append(own)
        yield attack

    monkeypatch.setattr(leaks, "attacks", attacks)
    said = (
        f"the {SEEN[kind]} reveal the value of 'y': a classifier that sees only these is right for {right} of 100, "
        "guessing for 50; it uses the inode most"
    )
    opened = [PublicFile("images/1.png", b"")]
    assert find_leaks(dataset, opened) == ([said] if found else [])
    truth = true_values(dataset)
    assert given == [(opened, truth, sample_order(dataset, truth))]


IDS: dict[str, Callable[[int, int], str]] = {
    "length of the ids": lambda k, own: f"x{'0' * own}-{k:05}"[-7 - own :],
    "first character of the ids": lambda k, own: f"{'pq'[own]}{chr(97 + k % 26)}{k:05}",
    "last character of the ids": lambda k, own: f"{k:05}{chr(97 + k % 26)}{'pq'[own]}",
    "parity of the ids": lambda k, own: f"{2 * (k * 7919 % 10007) + own:05}x" if k % 10 or own else f"{chr(97 + k)}x",
    "part 2 of the ids": lambda k, own: f"{k * 7919 % 10007:05}_{'pq'[own]}_{k}",
}


@pytest.mark.parametrize("what", IDS)
def test_the_form_of_ids_can_reveal_answers(what: str, dataset: Dataset) -> None:
    truth = {"y": {IDS[what](k, own): "ab"[own] for k, own in enumerate([0, 1, 1, 0, 1, 0] * 10)}}
    assert f"the {what} reveals the true values of 'y'" in [*leaks._in_ids(dataset, truth, [])]
    several = {f"{'pqrs'[2 * own + k % 2]}{k:03}": "ab"[own] for k, own in enumerate([0, 1, 1, 0, 1, 0] * 10)}
    assert "the first character of the ids reveals the true values of 'y'" in [
        *leaks._in_ids(dataset, {"y": several}, [])
    ]
    uneven = {**truth["y"], "a-b-c-d": "a"}
    assert any("the last character" in line for line in leaks._in_ids(dataset, {"y": uneven}, [])) == ("last" in what)
    other = {"y": {IDS[what](k, own): "ab"[k % 2] for k, own in enumerate([0, 1, 1, 0, 1, 0] * 10)}}
    assert not any(what in line for line in leaks._in_ids(dataset, other, []))


def test_ids_are_in_the_first_column_or_the_second_after_one_without_a_name(dataset: Dataset) -> None:
    rows, asked = _truth(dataset), pd.read_csv(dataset.sample_submission)
    asked.reset_index(names="").to_csv(dataset.sample_submission, index=False)
    assert true_values(dataset)["label"] == dict(zip(rows["id"], rows["label"], strict=True))
    asked.assign(a=0, b=0)[["a", "b", "id", "label"]].to_csv(dataset.sample_submission, index=False)
    assert true_values(dataset) == {}


def test_true_values_are_kept_as_raw_text(dataset: Dataset) -> None:
    rows = _truth(dataset)
    rows["label"] = rows["label"].map({"cat": "NA", "dog": "007"})
    rows.to_csv(dataset.answers, index=False)
    assert {*true_values(dataset)["label"].values()} == {"NA", "007"}


def test_line_counts_may_differ_by_one_in_files_of_lines() -> None:
    for suffix in ("csv", "tsv", "txt", "jsonl", "ndjson", "bin"):
        for lines in range(7):
            entry = PublicFile(f"a.{suffix}", b"x\n" * lines)
            assert leaks._has_lines(entry, 3) == (suffix != "bin" and 2 <= lines <= 4)


def test_an_id_column_names_at_least_half_of_the_ids_or_their_files() -> None:
    known = {f"id{k}" for k in range(10)}
    for count, found in ((4, False), (5, True)):
        names = [*(f"id{k}" for k in range(count)), *"vwxyz"]
        for named in (names, [f"images/{name}.png" for name in names]):
            key, places = leaks._places(pd.DataFrame({"k": range(len(named)), "file": named}), known)
            assert (key, places) == (("file", {f"id{k}": k for k in range(count)}) if found else (None, {}))
    mixed = ["id0", *(f"id{k}.png" for k in range(1, 10))]
    assert leaks._places(pd.DataFrame({"file": mixed}), known) == (None, {})
    assert leaks._places(pd.DataFrame({"file": ["id0", "id1"]}), {"id0", "id1"}) == ("file", {"id0": 0, "id1": 1})
    assert leaks._places(pd.DataFrame({"file": ["id0"]}), {"id0"}) == (None, {}), "one row is not a table of ids"


def test_a_table_that_lacks_an_id_is_matched_by_its_other_ids(dataset: Dataset) -> None:
    rows = _truth(dataset).drop(columns="text")
    rows.iloc[:-1].rename(columns={"label": "k"}).to_csv(dataset.public / "meta.csv", index=False)
    assert "public/meta.csv contains the true values of 'label'" in find_leaks(dataset)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"secret", True),
        (b"secret,x", True),
        (b"x,secret", True),
        (b"xsecret secret", True),
        (b"xsecret", False),
        (b",xsecret", False),
        (b"x,secrets", False),
        (b"other", False),
    ],
)
def test_a_value_is_bounded_by_separators_or_a_file_end(content: bytes, found: bool) -> None:
    assert leaks._holds(content, b"secret") == found


def by_id(values: Sequence[Any]) -> dict[str, str]:
    return {f"id{k:03}": str(value) for k, value in enumerate(values)}


def anywhere(values: Sequence[str], *opened: PublicFile) -> list[str]:
    return [*leaks._anywhere(opened, {"y": by_id(values)})]


@pytest.mark.parametrize(("rows", "texts", "found"), [(5, 5, True), (4, 4, False), (10, 5, True), (11, 5, False)])
def test_at_least_five_long_texts_that_are_half_of_the_rows_are_searched(rows: int, texts: int, found: bool) -> None:
    values = [f"text {k}" if k < texts else "short" for k in range(rows)]
    held = PublicFile("a.bin", "\n".join(values).encode())
    assert anywhere(values, held) == (["public/a.bin contains the true values of 'y'"] if found else [])


def test_texts_may_be_in_several_files_but_not_in_those_for_training() -> None:
    values = [f"text {k}" for k in range(9)]
    parts = [PublicFile(f"{k}.bin", "\n".join(values[k::3]).encode()) for k in range(3)]
    assert anywhere(values, *parts[1:]) == []
    assert anywhere(values, *parts) == ["public/0.bin and 2 more files contain the true values of 'y'"]
    whole, other = parts[0].content + b"\n" + parts[1].content, parts[2].content
    two = [PublicFile("b.bin", other), PublicFile("a.bin", whole)]
    assert anywhere(values, *two) == ["public/a.bin and 1 more file contain the true values of 'y'"]
    for name in ("Train.bin", "in.zip/train_2.bin", "Sample.bin"):
        assert anywhere(values, PublicFile(name, whole + b"\n" + other)) == []


def in_tables(values: Sequence[Any], *opened: PublicFile) -> list[str]:
    truth = by_id(values)
    return [*leaks._in_tables(opened, {"x": {id: f"x of {id}" for id in truth}, "y": truth}, list(truth))]


def csv(name: str, column: Sequence[Any], ids: Sequence[str] = ()) -> PublicFile:
    rows = pd.DataFrame({"k": column})
    if ids:
        rows.insert(0, "id", list(ids))
    return PublicFile(name, rows.to_csv(index=False).encode())


HOLDS, STANDS = "public/{} contains the true values of 'y'", "public/{}: column 'k' encodes the true values of 'y'"


@pytest.mark.parametrize(("classes", "found"), [(20, True), (21, False)])
def test_codes_without_ids_have_at_most_twenty_classes(classes: int, found: bool) -> None:
    values = [f"class {k % classes}" for k in range(63)]
    codes = [f"c{k % classes}" for k in range(63)]
    assert in_tables(values, csv("a.csv", codes)) == ([STANDS.format("a.csv")] if found else [])
    assert in_tables(values, csv("a.csv", codes, [*by_id(codes)])) == [STANDS.format("a.csv")]


def test_the_ids_of_a_table_are_matched_in_any_order() -> None:
    values = [k * k % 59 for k in range(60)]
    truth = by_id(values)
    ids = sorted(truth, key=lambda id: id[::-1])
    assert in_tables(values, csv("a.csv", [truth[id] for id in ids], ids)) == [HOLDS.format("a.csv")]


@pytest.mark.parametrize("rows", [16, 40, 60])
def test_a_table_of_every_second_id_is_found(rows: int) -> None:
    values = [k * 7 % 11 for k in range(rows)]
    for first in (0, 1):
        assert in_tables(values, csv("a.csv", values[first::2], [*by_id(values)][first::2])) == [HOLDS.format("a.csv")]


def test_codes_in_a_sample_are_not_a_leak_but_true_values_are() -> None:
    values = ["ab"[k * 7 % 11 % 2] for k in range(60)]
    codes, ids = [value.upper() for value in values], [*by_id(values)]
    assert in_tables(values, csv("a.csv", codes, ids)) == [STANDS.format("a.csv")]
    assert in_tables(values, csv("a Sample.csv", codes, ids)) == []
    assert in_tables(values, csv("a Sample.csv", values, ids)) == [HOLDS.format("a Sample.csv")]


def test_one_of_two_hundred_codes_may_be_wrong_in_either_direction() -> None:
    values = ["ab"[k % 2] for k in range(200)]
    for wrong in (0, 1):
        codes = ["AB"[wrong if k == 1 - wrong else k % 2] for k in range(200)]
        assert in_tables(values, csv("a.csv", codes, [*by_id(codes)])) == [STANDS.format("a.csv")]


def test_files_that_are_not_tables_do_not_end_the_search() -> None:
    values = [k * 7 % 11 for k in range(60)]
    ids = [*by_id(values)]
    first = [
        PublicFile("0.bin", b"nothing"),
        PublicFile("1.csv", "\n".join(ids).encode() + b"\nx,y,z\n"),
        PublicFile("2.csv", f"text\nsee {' '.join(ids)}\n".encode()),
        csv("3.csv", range(100, 160), ids),
    ]
    assert in_tables(values, *first, csv("4.csv", values, ids)) == [HOLDS.format("4.csv")]


def compressed(suffix: str) -> PublicFile:
    pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    rows = by_id([k * 7 % 11 for k in range(60)])
    pd.DataFrame({"id": rows.keys(), "k": rows.values()}).to_parquet(file, compression="gzip", write_statistics=False)
    assert not any(id.encode() in file.getvalue() for id in rows)
    return PublicFile(f"a.{suffix}", file.getvalue())


def test_tables_without_ids_are_read() -> None:
    values = [k * 7 % 11 for k in range(60)]
    assert in_tables(values, compressed("parquet")) == [HOLDS.format("a.parquet")]
    assert in_tables(values, compressed("pq")) == [HOLDS.format("a.pq")]
    listed = PublicFile("a.json", json.dumps([{"k": value} for value in values]).encode())
    assert in_tables(values, listed) == [HOLDS.format("a.json")]


@dataclass
class Told:
    """The metadata of files or of archive members, in their order, and the true values."""

    values: Sequence[Any]
    noted: Sequence[Mapping[str, Any]]
    name: str = "test.zip/{}.dat"
    ids: Sequence[int] | None = None
    """The order of the files; by default, that of their names."""
    of_ids: int | None = None
    found: Sequence[str] = ()

    def leaks(self) -> list[str]:
        truth = by_id([*self.values, *["other"] * ((self.of_ids or 0) - len(self.values))])
        opened = [
            PublicFile(self.name.format(f"id{k:03}"), b"", tuple((what, str(own)) for what, own in noted.items()))
            for k, noted in zip(self.ids or range(len(self.noted)), self.noted, strict=True)
        ]
        return [*leaks._in_metadata(opened, {"y": truth}, list(truth))]


MIXED = ["ab"[k * 7 % 11 % 2] for k in range(60)]
BLOCKS = ["a"] * 20 + ["b"] * 20 + ["a"] * 20
SORTED = ["a"] * 30 + ["b"] * 30
IN_ZIP, IN_FILES, TRUE = "public/test.zip: the ", "the public files *.dat: the ", " reveals the true values of 'y'"
NUMBERS = [k * k % 59 for k in range(60)]


def one_of(what: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{what: value} for value in values]


def out_of_order(values: Sequence[Any]) -> list[int]:
    """The positions of values sorted as strings, with equal values in reverse order."""
    return sorted(range(len(values)), key=lambda k: (str(values[k]), -k))


NEIGHBOURS = "public/test.zip: neighbours in the order of the files reveal the true values of 'y'"
METADATA = {
    "nothing": Told(MIXED, one_of("c", range(60))),
    "the value itself": Told(MIXED, one_of("c", MIXED), found=[IN_ZIP + "c" + TRUE]),
    "numbers on a line": Told(NUMBERS, one_of("c", [2 * n + 7 for n in NUMBERS]), found=[IN_ZIP + "c" + TRUE]),
    "two codes for a value": Told(MIXED, one_of("c", [f"{v}{k % 2}" for k, v in enumerate(MIXED)]),
                                  found=[IN_ZIP + "c" + TRUE]),
    "only where there is an answer": Told([f"{k} 1" if k % 2 else "" for k in range(60)],
                                          [{"c": f"{k} 1"} if k % 2 else {} for k in range(60)],
                                          found=[IN_ZIP + "c" + TRUE]),
    "eight of ten files": Told(MIXED[:8], one_of("c", MIXED[:8]), of_ids=10, found=[IN_ZIP + "c" + TRUE]),
    "seven of ten files": Told(MIXED[:7], one_of("c", MIXED[:7]), of_ids=10),
    "half of the files": Told(MIXED[:10], one_of("c", MIXED[:10]), of_ids=20, found=[IN_ZIP + "c" + TRUE]),
    "less than half": Told(MIXED[:9], one_of("c", MIXED[:9]), of_ids=20),
    "in folders": Told(MIXED, one_of("c", MIXED), "test/{}.dat", found=[IN_FILES + "c" + TRUE]),
    "in an archive in a folder": Told(MIXED, one_of("c", MIXED), "a/test.zip/b/{}.dat", found=[IN_ZIP + "c" + TRUE]),
    "without a suffix": Told(MIXED, one_of("c", MIXED), "{}", found=["the public files *: the c" + TRUE]),
    "an archive sorted by values": Told(MIXED, [{}] * 60, ids=out_of_order(MIXED),
                                        found=[IN_ZIP + "order of the files" + TRUE, NEIGHBOURS]),
    "an archive sorted by names, in blocks": Told(BLOCKS, [{}] * 60),
    "an archive in blocks": Told(BLOCKS, [{}] * 60, ids=[*range(19, -1, -1), *range(20, 60)], found=[NEIGHBOURS]),
    "an archive in another order": Told(MIXED, [{}] * 60, ids=[*range(59, -1, -1)]),
    "files sorted by names": Told(SORTED, [{}] * 60, "test/{}.dat"),
    "files without blocks of inodes": Told(MIXED, one_of("inode", range(60)), "{}.dat"),
    "one time of all files": Told(SORTED, one_of("time of change", [7] * 60), "{}.dat"),
    **{
        f"blocks in each {what}": Told(BLOCKS, one_of(what, range(60)), "{}.dat",
                                       found=[f"{IN_FILES}order by {what}{TRUE}"])
        for what in ("time of change", "time of the inode's change", "inode", "place in the directory")
    },
    "few inodes, sorted": Told(NUMBERS[:29], one_of("inode", [2 * n**2 + 3 for n in range(29)]), "{}.dat"),
    "inodes in the order of values": Told([n * 11 % 29 for n in range(29)],
                                          one_of("inode", [2 * (n * 11 % 29) ** 2 + 3 for n in range(29)]), "{}.dat",
                                          found=[f"{IN_FILES}order by inode{TRUE}"]),
}  # fmt: skip


@pytest.mark.parametrize("name", METADATA)
def test_metadata_of_files_named_after_ids_is_compared(name: str) -> None:
    told = METADATA[name]
    assert told.leaks() == list(told.found)


def test_file_types_are_compared_separately() -> None:
    truth = by_id(MIXED)
    few = [PublicFile(f"a/{id}.few", b"", (("c", value),)) for id, value in [*truth.items()][:5]]
    many = [PublicFile(f"b/{id}.dat", b"", (("c", value),)) for id, value in truth.items()]
    other = [PublicFile(f"b/{id}.txt", b"", (("c", "same"),)) for id in truth]
    found = leaks._in_metadata([*few, *many, *other], {"y": truth}, list(truth))
    assert [*found] == [IN_FILES + "c" + TRUE]


def test_ids_may_be_names_of_files() -> None:
    truth = {f"images/{id}.jpg": value for id, value in by_id(MIXED).items()}
    opened = [PublicFile(id, b"", (("c", value),)) for id, value in truth.items()]
    assert [*leaks._in_metadata(opened, {"y": truth}, list(truth))] == ["the public files *.jpg: the c" + TRUE]


@pytest.fixture
def tables(tmp_path: Path) -> Callable[..., Dataset]:
    """A function that writes tables by name: the sample submission, the answers and others."""

    def written(sample: str, answers: str, suffix: str = "csv", **others: str) -> Dataset:
        folder = tmp_path / "toy-animals"
        folder.mkdir(exist_ok=True)
        fields = f"sample_submission: public/sample.{suffix}\nanswers: private/answers.{suffix}\n"
        (folder / "competition.yaml").write_text(YAML + fields)
        (folder / "description.md").write_text("Cats and dogs.")
        (folder / "grade.py").write_text("def grade(submission, answers):\n    return 0.0\n")
        made = Dataset(Competition.load(folder), tmp_path / "data")
        made.public.mkdir(parents=True)
        made.private.mkdir()
        made.sample_submission.write_text(sample)
        made.answers.write_text(answers)
        for name, content in others.items():
            (made.public / f"{name}.csv").write_text(content)
        return made

    return written


ASKED, ANSWERS = "id,y\n1,0\n2,0\n", "id,y,w\n2,b,8\n1,a,9\n2,c,7\n"
OTHER = "id,z,a\n1,b,8\n2,a,9\n"


@pytest.mark.parametrize(
    ("given", "truth"),
    [
        ((ASKED, ANSWERS), {"y": {"2": "b", "1": "a"}}),
        (("id,q\n1,0\n2,0\n", OTHER), {"z": {"1": "b", "2": "a"}, "a": {"1": "8", "2": "9"}}),
        ((ASKED, "id,y\n1,a\n2,a\n"), {}),
        (("y,q\n1,0\n", "id,z\n1,2\n3,4\n"), {}),
        (("", ANSWERS), {}),
        ((ASKED, ""), {}),
        ((ASKED.replace(",", "\t"), ANSWERS.replace(",", "\t"), "tsv"), {"y": {"2": "b", "1": "a"}}),
    ],
)
def test_true_values_come_from_the_columns_of_the_sample_submission(
    given: tuple[str, ...], truth: dict[str, dict[str, str]], tables: Callable[..., Dataset]
) -> None:
    dataset = tables(*given)
    assert true_values(dataset) == truth and list(true_values(dataset)) == list(truth)
    assert sample_order(dataset, truth) == (["1", "2"] if truth else [])


@pytest.mark.parametrize(("test", "asked"), [("id,q,z\n1,b,c\n", ["a"]), ("id,q\n", ["z", "a"]), ("", ["z", "a"])])
def test_without_matching_columns_the_truth_is_every_column_missing_from_the_test_set(
    test: str, asked: list[str], tables: Callable[..., Dataset]
) -> None:
    assert list(true_values(tables("id,q\n1,0\n2,0\n", OTHER, test=test))) == asked


def test_the_order_of_ids_comes_from_the_column_with_the_most_ids(tables: Callable[..., Dataset]) -> None:
    dataset = tables("id,next\n1,3\n3,3\n2,3\n4,\n", "id,y\n1,a\n2,b\n3,a\n")
    assert sample_order(dataset, {"y": {"1": "a", "2": "b", "3": "a"}}) == ["1", "3", "2"]
    dataset.sample_submission.write_text("")
    assert sample_order(dataset, {"y": {"1": "a"}}) == []


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compressed_files_are_read_up_to_a_limit(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_files, "MAX_BYTES", 1000)
    suffix = {gzip: "gz", bz2: "bz2", lzma: "xz"}[module]
    for size in (1000, 1001, 64 << 20):
        (tmp_path / f"{size}.bin.{suffix}").write_bytes(module.compress(bytes(size))[: 1000 if size > 1001 else None])
    tracemalloc.start()
    read = {entry.name: len(entry.content) for entry in entries(tmp_path)}
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert [*filter(lambda name: name.endswith(".bin"), read)] == ["1000.bin"] and read["1000.bin"] == 1000


def test_members_count_in_the_total(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "12345":
            archive.writestr(name, bytes(10_000))
    (tmp_path / "b.bin").write_bytes(bytes(5_000))
    (tmp_path / "c.bin").write_bytes(bytes(5_001))
    total = (tmp_path / "a.zip").stat().st_size + 25_000
    found = {entry.name: len(entry.content) for entry in entries(tmp_path, total) if entry.name != "a.zip"}
    assert found == {"a.zip/1": 10_000, "a.zip/2": 10_000, "b.bin": 5_000, "c.bin": 0}


def test_damaged_archives_do_not_end_the_search(tmp_path: Path) -> None:
    for name, start in (("a.7z", b"7z\xbc\xaf\x27\x1c"), ("b.zip", b"PK\3\4"), ("c.xz", b"\xfd7zXZ\0")):
        (tmp_path / name).write_bytes(start + bytes(60))
    assert [entry.name for entry in entries(tmp_path)] == ["a.7z", "b.zip", "c.xz"]


def test_a_file_and_its_compressed_copy_are_both_searched(tmp_path: Path) -> None:
    truth = by_id(MIXED)
    for k, (id, value) in enumerate(truth.items()):
        for path, content in ((tmp_path / f"{id}.dat", b"same"), (tmp_path / f"{id}.dat.gz", gzip.compress(b"same"))):
            if k != 1 or path.suffix == ".gz":
                path.write_bytes(content)
                path.chmod(0o644 if value == "a" and path.suffix == ".dat" else 0o444)
    opened = [*entries(tmp_path)]
    found = [*leaks._in_metadata(opened, {"y": truth}, list(truth))]
    assert f"{IN_FILES}mode{TRUE}" in found and not any("*.gz: the mode" in line for line in found)
    assert any(attack.kind == ORDER and attack.is_significant for attack in attacks(opened, {"y": truth}))
