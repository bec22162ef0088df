"""What the classifier of metadata is given, and what it makes of it: each rule with a few files, without a dataset."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.gate import metadata
from pytest_mlebench.gate.metadata import CONTENT, ORDER, ROWS, Attack, attacks
from pytest_mlebench.gate.public_files import PublicFile


def files(*names: str, **noted: int) -> list[PublicFile]:
    return [PublicFile(name, b"same", tuple((k, str(v)) for k, v in noted.items())) for name in names]


def units(ids: list[str], *names: str) -> dict[str, str]:
    return metadata._units(ids, files(*names))


def test_a_unit_is_what_names_the_files_of_an_id() -> None:
    ids = [f"{k}_{n}" for k in range(8) for n in (0, 1)]
    of_files = units([*ids, "z"], *(f"test/{k}.png" for k in range(8)), "z.png")
    assert of_files == {**{id: id.partition("_")[0] for id in ids}, "z": "z"}
    assert units(["1", "2"], "a.png") == {"1": "1", "2": "2"}


def test_ids_whose_ends_repeat_belong_together() -> None:
    words = [f"s{k}-{n}" for k in range(4) for n in range(3)]
    assert units(words) == {id: id.partition("-")[0] for id in words}
    assert units([*words, "x"]) == {id: id for id in [*words, "x"]}, "one has no end"
    for repeated, together in ((8, False), (9, True)):  # of 32 ids, 24 and 23 ends: three quarters are too many
        ends = [*range(32 - repeated), *range(repeated)]
        ids = [f"s{k}-{end}" for k, end in enumerate(ends)]
        assert (units(ids) == {id: id.partition("-")[0] for id in ids}) == together, repeated


def test_seven_units_with_files_are_too_few() -> None:
    ids = [f"{k}_{n}" for k in range(7) for n in (0, 1)]
    assert units([*ids, "0"], *(f"{k}.png" for k in range(7)))["6_1"] == "6_1"
    ids = [f"{k}_{n}" for k in range(8) for n in (0, 1)]
    assert units([*ids, "0"], *(f"{k}.png" for k in range(8)))["7_1"] == "7"


def said(*entries: PublicFile, archived: bool = False, places: tuple[int, ...] = (3, 6)) -> dict[str, Any]:
    return metadata._said(list(zip(places, entries, strict=False)), archived)


def test_of_several_files_the_first_is_described_and_numbers_are_means() -> None:
    one = PublicFile("b/x_2.raw", b"22", (("size in bytes", "9"), ("inode", "5")))
    other = PublicFile("a/x_1.raw", b"1", (("size in bytes", "4"), ("inode", "8")))
    found = said(one, other)
    assert (found["folder"], found["files"], found["size in bytes"], found["inode"]) == ("a", 2, 13, 6)
    assert "place in the archive" not in found and "owner" not in found
    bare = said(PublicFile("a/x", b"12345"), archived=True)
    assert (bare["files"], bare["size in bytes"], bare["place in the archive"]) == (1, 5, 3.0)
    assert said(one, other, archived=True)["place in the archive"] == 4.5


def test_numbers_become_ranks_and_so_do_texts_among_them() -> None:
    ranks = metadata._as_numbers
    assert ranks(pd.Series(["10", "9", "10"])).tolist() == [2, 1, 2]
    assert ranks(pd.Series(["10", "9", "x"])).tolist() == [1, 2, 3]
    assert ranks(pd.Series(["b", None, "a"])).tolist() == [3, 1, 2]


NAMES = [f"u{k}" for k in range(16)]


def of_files(opened: list[PublicFile]) -> dict[str, pd.DataFrame]:
    return metadata._of_files(opened, {name: name for name in NAMES})


def test_files_are_described_by_kind_and_by_what_the_system_notes() -> None:
    opened = [
        PublicFile(f"d{k % 2}/{name}.raw", b"x" * (k + 1), (("inode", str(100 - k)), ("mode", "1")))
        for k, name in enumerate(NAMES[:12])
    ]
    opened += [PublicFile(f"in.zip/{name}.raw", b"x", ()) for name in NAMES]
    opened += [PublicFile("other.raw", b"", ()), PublicFile("u1.few", b"y", ())]
    found = of_files(opened)
    assert found.keys() == {ORDER, CONTENT}
    assert found[ORDER]["inode of *.raw"].tolist() == [*range(12, 0, -1), *[-1.0] * 4], "-1 where there is none"
    assert found[ORDER]["place in the archive of in.zip"].tolist() == list(range(1, 17))
    assert {"folder of *.raw", "size in bytes of *.raw"} <= {*found[CONTENT]}
    assert not any(
        "mode" in what or "few" in what or "files of" in what for kind in found.values() for what in map(str, kind)
    )
    assert found[ORDER].index.tolist() == NAMES


@pytest.mark.parametrize(("count", "named", "seen"), [(16, 8, True), (16, 7, False), (20, 9, False), (20, 10, True)])
def test_half_of_the_units_and_eight_need_files(count: int, named: int, seen: bool) -> None:
    names = [f"u{k}" for k in range(count)]
    opened = [PublicFile(f"{name}.raw", b"x" * k, ()) for k, name in enumerate(names[:named])]
    found = metadata._of_files(opened, {name: name for name in names})
    assert bool(found[CONTENT].shape[1]) == seen


def test_what_is_said_of_rows_is_their_ids_and_their_places() -> None:
    first = {unit: unit for unit in ["a9b", "b10", "ccc", "d2"]}
    found = metadata._of_rows([], first, ["zzz", "d2", "a9b", "b10", "ccc", "d2"])
    assert found["order of the ids"].tolist() == [1, 2, 3, 4]
    assert found["length of the ids"].tolist() == [3, 3, 3, 2]
    assert found["last digit of the ids"].tolist() == [9, 0, -1, 2]
    assert found["number in the ids"].tolist() == [3, 4, 1, 2]
    assert found["parity of the ids"].tolist() == [1, 0, 1, 0]
    assert found["character 0 of the ids"].tolist() == [*map(ord, "abcd")]
    assert found["character 1 of the ids"].tolist() == [*map(ord, "91c2")]
    assert found["character 2 of the ids"].tolist() == [ord("b"), ord("0"), ord("c"), -1]
    assert found["character -1 of the ids"].tolist() == [*map(ord, "b0c2")]
    assert found["character -2 of the ids"].tolist() == [*map(ord, "91cd")]
    assert found["character -3 of the ids"].tolist() == [ord("a"), ord("b"), ord("c"), -1]
    assert found["place in the sample submission"].tolist() == [2, 3, 4, 1], "the first of two places"
    assert "place in the sample submission" not in metadata._of_rows([], first, ["a9b", "b10", "ccc"])
    assert "length of the ids" not in metadata._of_rows([], {"a": "a", "b": "b"}, []), "all are as long"


def test_tables_that_list_all_ids_are_read_in_the_order_of_their_rows() -> None:
    ids = [f"id{k:03}" for k in range(50)]
    rows = pd.DataFrame({"n": range(50), "id": ids[::-1]}).to_csv(index=False).encode()
    less = pd.DataFrame({"id": ids[1:]}).to_csv(index=False).encode()
    opened = [PublicFile("a.csv", rows, ()), PublicFile("b.txt", rows, ()), PublicFile("c.csv", less, ())]
    opened += [PublicFile("f.json", json.dumps([{"id": id} for id in ids]).encode(), ())]
    opened += [PublicFile("d.tsv", rows.replace(b",", b"\t"), ()), PublicFile("e.csv", b"nothing", ())]
    assert [*metadata._listings(opened, {*ids})] == [("a.csv", ids[::-1]), ("f.json", ids), ("d.tsv", ids[::-1])]


def targets(true: dict[str, str], members: dict[str, list[str]] | None = None) -> dict[str, list[int]]:
    own = members or {id: [id] for id in true}
    return {what: classes.tolist() for what, classes in metadata._targets(true, own, list(own))}


def by_number(values: list[Any]) -> dict[str, str]:
    return {str(k): str(value) for k, value in enumerate(values)}


def test_what_is_predicted_is_a_value_a_half_or_a_texts_emptiness_and_length() -> None:
    assert targets(by_number(["a", "b"] * 4)) == {"value": [0, 1] * 4}
    assert targets(by_number(["a", "b", "c"] * 4)) == {"value": [0, 1, 2] * 4}
    assert targets(by_number([*range(8)])) == {"half": [0] * 4 + [1] * 4}
    assert targets(by_number(["", "x", "", "yy", "", "zzz", "wwww", "vvvvv"])) == {
        "emptiness": [1, 0, 1, 0, 1, 0, 0, 0],
        "length": [0, 0, 0, 1, 0, 1, 1, 1],
    }
    assert targets(by_number(["a"] * 8 + ["b"] * 2)) == {}, "two others are too few"
    assert targets(by_number(["a"] * 9 + ["b"] * 3)) == {"value": [0] * 9 + [1] * 3}


def test_of_several_rows_the_mean_or_the_usual_text_is_predicted() -> None:
    members = {f"u{k}": [f"{k}a", f"{k}b", f"{k}c"] for k in range(8)}
    numbers = {id: str(k + n) for k in range(8) for n, id in enumerate(members[f"u{k}"])}
    assert targets(numbers, members) == {"half": [0] * 4 + [1] * 4}
    texts = {id: ("x", "yes" if k % 2 else "no", "yes" if k % 2 else "no")[n]
             for k in range(8) for n, id in enumerate(members[f"u{k}"])}  # fmt: skip
    assert targets(texts, members) == {"value": [0, 1] * 4}


def test_some_are_drawn_in_order() -> None:
    assert metadata._some("abc", 5) == ["a", "b", "c"]
    drawn = metadata._some([f"{k:03}" for k in range(100)], 10)
    assert len(drawn) == 10 and drawn == sorted(drawn)


def test_the_gain_is_the_share_of_what_guessing_does_not_tell() -> None:
    assert Attack("t", ROWS, 80, 100, 60, 0.5, "x").gain == 0.5
    assert Attack("t", ROWS, 50, 100, 60, 0.5, "x").gain == 0 == Attack("t", ROWS, 5, 5, 5, 1.0, "x").gain
    assert not Attack("t", ROWS, 1, 1, 1, 1e-6, "x").is_no_chance
    assert Attack("t", ROWS, 1, 1, 1, 9e-7, "x").is_no_chance


def test_the_bound_of_what_chance_does_is_chernoffs() -> None:
    true = np.array([0, 1] * 50)
    assert metadata._bound(true, true) == pytest.approx(2.0**-100)
    assert metadata._bound(true, 1 - true) == 1.0 == metadata._bound(true, np.array([0, 0, 1, 1] * 25))
    mostly = np.where(np.arange(100) < 10, 1 - true, true)
    kullback = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    assert metadata._bound(mostly, true) == pytest.approx(np.exp(-100 * kullback))


def test_the_share_of_orders_that_do_as_well_is_drawn() -> None:
    true = np.array([0, 1] * 50)
    half = np.array([0, 0, 1, 1] * 25)
    assert metadata._p_value(half, true) == pytest.approx(0.58, abs=0.06)
    assert metadata._p_value(true, true) == pytest.approx(2.0**-100)
    assert metadata._p_value(true[:6], true[:6]) == pytest.approx(0.05, abs=0.02)


def test_an_attack_says_how_many_are_right_and_by_what() -> None:
    classes = np.array([0, 1] * 30 + [0])
    seen = pd.DataFrame({"noise": np.arange(61) // 2, "told": classes})
    found = metadata._attack("value of 'y'", ORDER, seen, classes)
    assert (found.target, found.kind, found.right, found.rows, found.guess) == ("value of 'y'", ORDER, 61, 61, 31)
    assert found.above_all == "told" and found.p < 1e-8
    nothing = metadata._attack("value of 'y'", ROWS, pd.DataFrame({"one": [0] * 61}), classes)
    assert nothing.p > 0.1 and not nothing.is_no_chance


def test_each_kind_of_metadata_is_tried_on_each_column() -> None:
    ids = [f"x{k * 37 % 100:02}" for k in range(40)]
    truth = {"y": {id: "ab"[k % 2] for k, id in enumerate(ids)}, "z": {id: id * (1 + k) for k, id in enumerate(ids)}}
    opened = [PublicFile(f"{id}.raw", b"x" * k, (("inode", str(k)),)) for k, id in enumerate(ids)]
    tried = {(found.target, found.kind) for found in attacks(opened, truth, ids)}
    value, length = "value of 'y'", "length of 'z'"
    assert tried == {(value, ORDER), (value, CONTENT), (value, ROWS), (length, ORDER), (length, ROWS)}
    few = {"y": {id: "ab"[k % 2] for k, id in enumerate(ids[:7])}}
    assert not [*attacks(opened, few, ids)] and not [*attacks(opened, {}, ids)]


def test_rows_may_be_like_a_few_of_their_neighbours() -> None:
    classes = np.repeat(np.random.default_rng(0).integers(0, 2, 100), 4)
    seen = pd.DataFrame({"place": np.arange(400)})
    assert metadata._attack("value of 'y'", ORDER, seen, classes).is_no_chance
    assert not metadata._attack("value of 'y'", ROWS, seen, classes).is_no_chance


@pytest.mark.parametrize(
    "what",
    [
        "time of change",
        "time of the inode's change",
        "time of birth",
        "inode",
        "mode",
        "owner",
        "links",
        "extended attributes",
        "place in the directory",
    ],
)
def test_what_the_system_notes_is_no_content(what: str) -> None:
    opened = [PublicFile(f"{name}.raw", b"same", ((what, str(k)),)) for k, name in enumerate(NAMES)]
    found = of_files(opened)
    assert [*found[ORDER]] == [f"{what} of *.raw"] and found[CONTENT].empty
    two = [PublicFile(name, b"same", ((what, number),)) for name, number in (("a.raw", "3"), ("b.raw", "5"))]
    assert said(*two)[what] == 4
