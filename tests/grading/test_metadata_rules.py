"""The inputs and results of the metadata classifier: each rule with a few files, without a dataset."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from pytest_mlebench.gate import metadata
from pytest_mlebench.gate.metadata import CONTENT, ORDER, ROWS, Attack, attacks
from pytest_mlebench.gate.public_files import PublicFile


def files(*names: str, **noted: int) -> list[PublicFile]:
    return [PublicFile(name, b"same", tuple((k, str(v)) for k, v in noted.items())) for name in names]


def units(ids: list[str], *names: str) -> dict[str, str]:
    return metadata._units(ids, files(*names))


def test_a_unit_is_the_part_of_an_id_that_names_its_files() -> None:
    ids = [f"{k}_{n}" for k in range(8) for n in (0, 1)]
    of_files = units([*ids, "z"], *(f"test/{k}.png" for k in range(8)), "z.png")
    assert of_files == {**{id: id.partition("_")[0] for id in ids}, "z": "z"}
    assert units(["1", "2"], "a.png") == {"1": "1", "2": "2"}


def test_ids_with_repeated_suffixes_form_units() -> None:
    words = [f"s{k}-{n}" for k in range(4) for n in range(3)]
    assert units(words) == {id: id.partition("-")[0] for id in words}
    assert units([*words, "x"]) == {id: id for id in [*words, "x"]}, "one has no suffix"
    for repeated, together in ((8, False), (9, True)):  # 24 or 23 distinct suffixes of 32: three quarters are too many
        ends = [*range(32 - repeated), *range(repeated)]
        ids = [f"s{k}-{end}" for k, end in enumerate(ends)]
        assert (units(ids) == {id: id.partition("-")[0] for id in ids}) == together, repeated


def test_seven_units_with_files_are_too_few() -> None:
    ids = [f"{k}_{n}" for k in range(7) for n in (0, 1)]
    assert units([*ids, "0"], *(f"{k}.png" for k in range(7)))["6_1"] == "6_1"
    ids = [f"{k}_{n}" for k in range(8) for n in (0, 1)]
    assert units([*ids, "0"], *(f"{k}.png" for k in range(8)))["7_1"] == "7"


def said(*entries: PublicFile, archived: bool = False, places: tuple[int, ...] = (3, 6)) -> dict[str, Any]:
    return metadata._noted(list(zip(places, entries, strict=False)), archived)


def test_several_files_are_described_by_the_first_and_by_mean_numbers() -> None:
    one = PublicFile("b/x_2.raw", b"22", (("size in bytes", "9"), ("inode", "5")))
    other = PublicFile("a/x_1.raw", b"1", (("size in bytes", "4"), ("inode", "8")))
    found = said(one, other)
    assert (found["folder"], found["files"], found["size in bytes"], found["inode"]) == ("a", 2, 13, 6)
    assert "place in the archive" not in found and "owner" not in found
    bare = said(PublicFile("a/x", b"12345"), archived=True)
    assert (bare["files"], bare["size in bytes"], bare["place in the archive"]) == (1, 5, 3.0)
    assert said(one, other, archived=True)["place in the archive"] == 4.5


def test_numbers_and_texts_become_ranks() -> None:
    ranks = metadata._as_numbers
    assert ranks(pd.Series(["10", "9", "10"])).tolist() == [2, 1, 2]
    assert ranks(pd.Series(["10", "9", "x"])).tolist() == [1, 2, 3]
    assert ranks(pd.Series(["b", None, "a"])).tolist() == [3, 1, 2]


NAMES = [f"u{k}" for k in range(16)]


def of_files(opened: list[PublicFile]) -> dict[str, pd.DataFrame]:
    return metadata._of_files(opened, {name: name for name in NAMES})


def test_files_are_described_by_type_and_file_system_metadata() -> None:
    opened = [
        PublicFile(f"d{k % 2}/{name}.raw", b"x" * (k + 1), (("inode", str(100 - k)), ("mode", "1")))
        for k, name in enumerate(NAMES[:12])
    ]
    opened += [PublicFile(f"in.zip/{name}.raw", b"x", ()) for name in NAMES]
    opened += [PublicFile("other.raw", b"", ()), PublicFile("u1.few", b"y", ())]
    found = of_files(opened)
    assert found.keys() == {ORDER, CONTENT}
    assert found[ORDER]["inode of *.raw"].tolist() == [*range(12, 0, -1), *[-1.0] * 4], "-1 if there is none"
    assert found[ORDER]["place in the archive of in.zip"].tolist() == list(range(1, 17))
    assert {"folder of *.raw", "size in bytes of *.raw"} <= {*found[CONTENT]}
    assert not any(
        "mode" in what or "few" in what or "files of" in what for kind in found.values() for what in map(str, kind)
    )
    assert found[ORDER].index.tolist() == NAMES


@pytest.mark.parametrize(("count", "named", "seen"), [(16, 8, True), (14, 7, False), (20, 9, False), (20, 10, True)])
def test_at_least_half_of_the_units_and_eight_need_files(count: int, named: int, seen: bool) -> None:
    names = [f"u{k}" for k in range(count)]
    opened = [PublicFile(f"{name}.raw", b"x" * k, ()) for k, name in enumerate(names[:named])]
    found = metadata._of_files(opened, {name: name for name in names})
    assert bool(found[CONTENT].shape[1]) == seen


def test_few_files_of_a_kind_do_not_end_the_search() -> None:
    found = of_files([*files("u0.few"), *(PublicFile(f"{name}.raw", b"x" * k) for k, name in enumerate(NAMES))])
    assert "size in bytes of *.raw" in found[CONTENT]


def test_metadata_of_only_some_files_is_used() -> None:
    """A camera may record its name in only some pictures."""
    some = [PublicFile(f"{name}.raw", b"same", (("camera", "A"),) if k % 2 else ()) for k, name in enumerate(NAMES)]
    assert of_files(some)[CONTENT]["camera of *.raw"].nunique() == 2


def test_metadata_from_an_archive_is_not_content() -> None:
    members = [PublicFile(f"t/in.zip/{n}.raw", b"x", (("archive's time", str(k)),)) for k, n in enumerate(NAMES)]
    found = of_files(members)
    assert [*found[ORDER]] == ["archive's time of in.zip", "place in the archive of in.zip"] and found[CONTENT].empty


def test_at_most_three_hundred_items_are_used() -> None:
    opened = [
        PublicFile(f"{name}.raw", f"{k:04}".encode() + b"x" * k, tuple((f"tag {n}", str(k)) for n in range(400)))
        for k, name in enumerate(NAMES)
    ]
    assert sum(seen.shape[1] for seen in of_files(opened).values()) == 300


def test_a_file_belongs_to_the_innermost_name() -> None:
    opened = [PublicFile(f"u0/{name}.raw", b"x" * k) for k, name in enumerate(NAMES)]
    assert of_files(opened)[CONTENT]["size in bytes of *.raw"].tolist() == [*range(1, 17)]


@pytest.mark.parametrize(
    ("name", "stem", "archive"),
    [
        ("cat", "cat", ""),
        ("a/cat.tar.gz", "cat", ""),
        ("a/7/", "7", ""),
        ("in.zip/cat", "cat", "in.zip"),
        ("a/in.zip/b/more.tar/7.png", "7", "in.zip"),
        ("a/b/7.png", "7", ""),
    ],
)
def test_a_file_has_a_stem_and_may_be_in_an_archive(name: str, stem: str, archive: str) -> None:
    assert metadata.stem_of(name) == stem
    assert metadata.archive_of(PublicFile(name, b"")) == archive


@pytest.mark.parametrize(
    ("id", "names"),
    [
        ("7", ["7"]),
        ("7_3-x", ["7_3-x", "7_3", "7"]),
        ("_7_3", ["_7_3", "_7"]),
        ("test/7.png", ["test/7.png", "7", "test/7", "test"]),
    ],
)
def test_files_may_be_named_after_a_prefix_of_an_id(id: str, names: list[str]) -> None:
    assert [*metadata.named_after(id)] == names


def test_rows_are_described_by_their_ids_and_positions() -> None:
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
    assert metadata._of_rows([], first, [*first])["place in the sample submission"].tolist() == [0, 1, 2, 3]
    numbers = metadata._of_rows([], {id: id for id in ("a0", "b", "c\N{ARABIC-INDIC DIGIT THREE}", "d2")}, [])
    assert numbers["number in the ids"].tolist() == [3, 1.5, 1.5, 4]
    assert numbers["parity of the ids"].tolist() == [0, 1, 1, 0]
    assert numbers["last digit of the ids"].tolist() == [0, -1, -1, 2]
    assert "length of the ids" not in metadata._of_rows([], {"a": "a", "b": "b"}, []), "all have the same length"


def test_tables_that_list_all_ids_are_read_in_the_order_of_their_rows() -> None:
    ids = [f"id{k:03}" for k in range(50)]
    rows = pd.DataFrame({"n": range(50), "id": ids[::-1]}).to_csv(index=False).encode()
    less = pd.DataFrame({"id": ids[1:]}).to_csv(index=False).encode()
    records = [{"id": id} for id in ids]
    opened = [PublicFile("a.csv", rows), PublicFile("b.bin", rows), PublicFile("c.csv", less)]
    opened += [PublicFile("d.tsv", rows.replace(b",", b"\t")), PublicFile("e.csv", b"nothing")]
    opened += [PublicFile("f.json", json.dumps(records).encode()), PublicFile("g.txt", rows)]
    opened += [PublicFile("h.jsonl", "\n".join(map(json.dumps, records)).encode())]
    found = [*metadata._listings(opened, {*ids})]
    down = ids[::-1]
    assert found == [("a.csv", down), ("d.tsv", down), ("f.json", ids), ("g.txt", down), ("h.jsonl", ids)]
    pairs = pd.DataFrame({"id": ids, "like": ids[::-1]}).to_csv(index=False).encode()
    assert [*metadata._listings([PublicFile("a.csv", pairs)], {*ids})] == [("a.csv", ids)], "the first column of ids"


def targets(true: dict[str, str], members: dict[str, list[str]] | None = None) -> dict[str, list[int]]:
    own = members or {id: [id] for id in true}
    return {what: classes.tolist() for what, classes in metadata._targets(true, own, list(own))}


def by_number(values: list[Any]) -> dict[str, str]:
    return {str(k): str(value) for k, value in enumerate(values)}


def test_targets_are_a_value_a_half_or_a_texts_emptiness_and_length() -> None:
    assert targets(by_number(["a", "b"] * 4)) == {"value": [0, 1] * 4}
    assert targets(by_number(["a", "b", "c"] * 4)) == {"value": [0, 1, 2] * 4}
    assert targets(by_number([*range(8)])) == {"half": [0] * 4 + [1] * 4}
    assert targets(by_number(["", "x", "", "yy", "", "zzz", "wwww", "vvvvv"])) == {
        "emptiness": [1, 0, 1, 0, 1, 0, 0, 0],
        "length": [0, 0, 0, 1, 0, 1, 1, 1],
    }
    assert targets(by_number(["a"] * 8 + ["b"] * 2)) == {}, "two others are too few"
    assert targets(by_number(["a"] * 9 + ["b"] * 3)) == {"value": [0] * 9 + [1] * 3}
    assert targets(by_number([0, 1, 2] * 3 + [0, 1])) == {"half": [0, 0, 1] * 3 + [0, 0]}, "few values are a quarter"
    assert targets(by_number([0] * 5 + [1, 2, 3])) == {"half": [0] * 5 + [1] * 3}, "five are the median"
    assert targets(by_number([*"vwxyz", "aa", "bbb", "cccc"])) == {"length": [0] * 5 + [1] * 3}
    assert targets(by_number(["1", "1.0", "2", "2.0"] * 3)) == {"value": [0, 0, 1, 1] * 3}, "numbers, not texts"


def test_the_target_of_several_rows_is_their_mean_or_most_common_text() -> None:
    members = {f"u{k}": [f"{k}a", f"{k}b", f"{k}c"] for k in range(8)}
    numbers = {id: str(k + n) for k in range(8) for n, id in enumerate(members[f"u{k}"])}
    assert targets(numbers, members) == {"half": [0] * 4 + [1] * 4}
    texts = {id: ("x", "yes" if k % 2 else "no", "yes" if k % 2 else "no")[n]
             for k in range(8) for n, id in enumerate(members[f"u{k}"])}  # fmt: skip
    assert targets(texts, members) == {"value": [0, 1] * 4}


def test_a_sample_keeps_the_order() -> None:
    assert metadata.some_of("abc", 5) == ["a", "b", "c"]
    drawn = metadata.some_of([f"{k:03}" for k in range(100)], 10)
    assert len(drawn) == 10 and drawn == sorted(drawn)


def test_the_gain_is_relative_to_the_rows_that_guessing_misses() -> None:
    assert Attack("t", ROWS, 80, 100, 60, 0.5, "x").gain == 0.5
    assert Attack("t", ROWS, 50, 100, 60, 0.5, "x").gain == 0 == Attack("t", ROWS, 5, 5, 5, 1.0, "x").gain
    assert Attack("t", ROWS, 5, 5, 4, 0.5, "x").gain == 1
    assert not Attack("t", ROWS, 1, 1, 1, 1e-6, "x").is_significant
    assert Attack("t", ROWS, 1, 1, 1, 9e-7, "x").is_significant


def test_the_bound_on_chance_is_chernoffs() -> None:
    true = np.array([0, 1] * 50)
    assert metadata._bound(true, true) == pytest.approx(2.0**-100, rel=1e-9, abs=0)
    mostly = np.where(np.arange(100) < 10, 1 - true, true)
    assert metadata._bound(mostly, true) == pytest.approx(np.exp(-100 * kullback(0.9, 0.5)), rel=1e-9, abs=0)
    unequal = np.array([0] * 70 + [1] * 20 + [2] * 10)
    predicted = np.array([0] * 75 + [1] * 15 + [3] * 10)  # 70 and 15 of them are right
    by_chance = 0.7 * 0.75 + 0.2 * 0.15
    assert metadata._bound(predicted, unequal) == pytest.approx(
        np.exp(-100 * kullback(0.85, by_chance)), rel=1e-9, abs=0
    )


def kullback(share: float, mean: float) -> float:
    return float(share * np.log(share / mean) + (1 - share) * np.log((1 - share) / (1 - mean)))


def test_the_share_of_permutations_that_do_as_well_is_sampled() -> None:
    true = np.array([0, 1] * 50)
    half = np.array([0, 0, 1, 1] * 25)
    assert metadata._p_value(half, true) == pytest.approx(0.58, abs=0.06)
    assert metadata._p_value(true, true) == pytest.approx(2.0**-100, rel=1e-9, abs=0)
    assert metadata._p_value(true[:6], true[:6]) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(
    ("as_good", "p", "drawn"),
    [
        ([9, 1, 5], 11 / 1001, 2),
        ([10, 5], 11 / 501, 1),
        ([9, 0, 2], 12 / 1501, 3),
        ([0] * 39 + [1], 2 / 20_001, 40),
        ([0] * 40 + [1], 1 / 20_001, 40),
    ],
)
def test_sampling_stops_after_ten_equal_permutations_or_twenty_thousand(
    as_good: list[int], p: float, drawn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = np.array([0, 1] * 10)
    batches = [np.array([true] * count + [1 - true] * (500 - count)) for count in as_good]

    class Scripted:
        given = 0

        def permuted(self, orders: np.ndarray, axis: int) -> np.ndarray:
            assert orders.shape == (500, 20) and axis == 1
            self.given += 1
            return batches[self.given - 1]

    scripted = Scripted()
    monkeypatch.setattr(np.random, "default_rng", lambda seed: scripted)
    monkeypatch.setattr(metadata, "_bound", lambda *_: 0.5)
    assert metadata._p_value(true, true) == pytest.approx(p)
    assert scripted.given == drawn


@pytest.mark.parametrize(("halves", "p"), [((0.3, 0.1), 0.2), ((0.05, 0.4), 0.1), ((0.9, 0.8), 1.0)])
def test_the_better_of_two_halves_counts_twice(
    halves: tuple[float, float], p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(halves)
    monkeypatch.setattr(metadata, "_p_value", lambda *_: next(given))
    classes = np.array([0, 1] * 10)
    assert metadata._attack("t", ORDER, pd.DataFrame({"told": classes}), classes).p == pytest.approx(p)


@pytest.mark.parametrize(("kind", "rows", "least"), [(ORDER, 80, 1), (ROWS, 80, 5), (ROWS, 380, 9), (ROWS, 400, 10)])
def test_a_leaf_holds_at_least_a_twentieth_of_the_training_rows_and_five(
    kind: str, rows: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ExtraTreesClassifier] = []

    def forest(*given: Any, **options: Any) -> ExtraTreesClassifier:
        made.append(ExtraTreesClassifier(*given, **options))
        return made[-1]

    monkeypatch.setattr("sklearn.ensemble.ExtraTreesClassifier", forest)
    classes = np.random.default_rng(0).integers(0, 2, rows)
    metadata._attack("t", kind, pd.DataFrame({"place": np.arange(rows)}), classes)
    trees = [tree.tree_ for own in made for tree in own.estimators_]
    assert min(tree.n_node_samples[tree.children_left < 0].min() for tree in trees) == least


def test_one_telling_item_among_many_is_used_and_results_are_reproducible() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 61)
    noise = pd.DataFrame({f"noise {k}": rng.random(61) for k in range(60)})
    found = metadata._attack("t", ORDER, noise.assign(told=classes), classes)
    assert (found.right, found.main_feature) == (61, "told")
    assert len({metadata._attack("t", ORDER, noise, classes) for _ in range(2)}) == 1


def test_items_that_split_without_a_gain_reveal_nothing() -> None:
    """In both halves, each value of the item has both classes equally often."""
    seen, classes = [0, 0, 1, 0, 1, 1, 1, 0], np.array([0, 1, 0, 1, 0, 1, 1, 0])
    assert metadata._attack("t", ORDER, pd.DataFrame({"item": seen}), classes).p > 0.5


def test_an_attack_reports_its_hits_and_its_strongest_item() -> None:
    classes = np.array([0, 1] * 30 + [0])
    seen = pd.DataFrame({"noise": np.arange(61) // 2, "told": classes})
    found = metadata._attack("value of 'y'", ORDER, seen, classes)
    assert (found.target, found.kind, found.right, found.rows, found.guess) == ("value of 'y'", ORDER, 61, 61, 31)
    assert found.main_feature == "told" and found.p < 1e-8
    nothing = metadata._attack("value of 'y'", ROWS, pd.DataFrame({"one": [0] * 61}), classes)
    assert nothing.p == 1.0 and not nothing.is_significant


def test_each_kind_of_metadata_is_tried_on_each_column() -> None:
    ids = [f"x{k * 37 % 100:02}" for k in range(40)]
    truth = {"y": {id: "ab"[k % 2] for k, id in enumerate(ids)}, "z": {id: id * (1 + k) for k, id in enumerate(ids)}}
    opened = [PublicFile(f"{id}.raw", b"x" * k, (("inode", str(k)),)) for k, id in enumerate(ids)]
    tried = {(found.target, found.kind) for found in attacks(opened, truth, ids)}
    value, length = "value of 'y'", "length of 'z'"
    assert tried == {(value, ORDER), (value, CONTENT), (value, ROWS), (length, ORDER), (length, ROWS)}
    few, eight = ({"y": {id: "ab"[k % 2] for k, id in enumerate(ids[:count])}} for count in (7, 8))
    assert {found.kind for found in attacks([], eight)} == {ROWS}
    assert not [*attacks(opened, few, ids)] and not [*attacks(opened, {}, ids)]


@pytest.mark.parametrize(("units", "columns", "rows", "targets"), [(2001, 1, 2000, 1), (40, 13, 40, 12)])
def test_only_some_of_many_units_and_columns_are_tried(
    units: int, columns: int, rows: int, targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = {f"y{n}": {f"{k}_{end}": "ab"[k % 2] for k in range(units) for end in (1, 2)} for n in range(columns)}
    order = sorted(truth["y0"])
    places: dict[str, list[float]] = {}

    def attack(target: str, kind: str, seen: pd.DataFrame, classes: np.ndarray) -> Attack:
        assert len(classes) == len(seen) == rows
        places[target] = seen["place in the sample submission"].tolist()
        return Attack(target, kind, 0, 0, 0, 1.0, "")

    monkeypatch.setattr(metadata, "_attack", attack)
    assert len([*attacks([], truth, order)]) == targets
    assert [*places] == [f"value of 'y{n}'" for n in range(targets)]
    assert all(order[int(place)].endswith("_1") for place in places["value of 'y0'"]), (
        "a unit is placed by its first id"
    )


def test_rows_may_resemble_a_few_neighbours() -> None:
    classes = np.repeat(np.random.default_rng(0).integers(0, 2, 100), 4)
    seen = pd.DataFrame({"place": np.arange(400)})
    assert metadata._attack("value of 'y'", ORDER, seen, classes).is_significant
    assert not metadata._attack("value of 'y'", ROWS, seen, classes).is_significant


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
def test_file_system_metadata_is_not_content(what: str) -> None:
    opened = [PublicFile(f"{name}.raw", b"same", ((what, str(k)),)) for k, name in enumerate(NAMES)]
    found = of_files(opened)
    assert [*found[ORDER]] == [f"{what} of *.raw"] and found[CONTENT].empty
    two = [PublicFile(name, b"same", ((what, number),)) for name, number in (("a.raw", "3"), ("b.raw", "5"))]
    assert said(*two)[what] == 4
