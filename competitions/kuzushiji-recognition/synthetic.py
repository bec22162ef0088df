from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import first_value, standard
from pytest_mlebench.authoring.tables import split

CHARACTERS = ["U+306F", "U+306B", "U+3066", "U+304F", "U+306E", "U+4E00", "U+5927", "U+309D", "U+003F"]

Box = tuple[str, int, int, int, int]
Point = tuple[str, Any, Any]


def _image_id(rng: np.random.Generator, k: int) -> str:
    if k % 3:
        return f"{rng.integers(100241706, 200021925)}_{k:05d}_{rng.integers(1, 3)}"
    return f"umgy{k:03d}-{rng.integers(1, 99):03d}"


def make(raw: Path, seed: int) -> None:
    make_pages(raw, seed, _image_id)


def make_pages(raw: Path, seed: int, image_id: Callable[[np.random.Generator, int], str]) -> None:
    """Write the data; ``image_id`` returns the name of a page from its number."""
    rng = np.random.default_rng(seed)
    n = 178 + 5 * seed
    ids = [image_id(rng, k) for k in range(n)]
    labels: list[str | None] = [_labels(rng) for _ in range(n)]
    # Pages with images only have no labels; as in the real data, none of them is held out.
    train, _ = split(np.arange(n), test_size=0.1)
    for k in rng.choice(train, 12, replace=False):
        labels[k] = None
    pd.DataFrame({"image_id": ids, "labels": labels}).to_csv(raw / "train.csv", index=False)
    sample = pd.DataFrame({"image_id": ["test_a", "test_b"], "labels": "U+003F 1 1 U+FF2F 2 2"})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    translation = "".join(f"{character},{chr(int(character[2:], 16))}\n" for character in CHARACTERS)
    (raw / "unicode_translation.csv").write_text(f'Unicode,char\n{translation}U+0022,""""\n')
    for name, images in (("train_images.zip", ids), ("test_images.zip", ["test_a", "test_b"])):
        write_zip(raw / name, {f"{id}.jpg": b"\xff\xd8" + rng.bytes(3) for id in images})


def _labels(rng: np.random.Generator) -> str:
    boxes = []
    for _ in range(rng.integers(1, 9)):
        character = str(rng.choice(CHARACTERS))
        x, y = rng.integers(0, 3000, 2)
        width, height = rng.integers(4, 160, 2)
        boxes.append((character, x, y, width, height))
        if rng.random() < 0.3:  # the same character again, overlapping
            boxes.append((character, x + width // 3, y + height // 3, width, height))
        if rng.random() < 0.15:  # another character in the same place
            boxes.append((str(rng.choice(CHARACTERS)), x, y, width, height))
    return " ".join(" ".join(map(str, box)) for box in boxes)


def _boxes(labels: str) -> list[Box]:
    parts = labels.split()
    return [(parts[k], *map(int, parts[k + 1 : k + 5])) for k in range(0, len(parts), 5)]  # type: ignore[misc]


def _centre(box: Box) -> Point:
    character, x, y, width, height = box
    return character, x + width / 2, y + height / 2


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = [_boxes(labels) for labels in answers["labels"]]

    def build(points: Callable[[list[Box]], list[Point]]) -> pd.DataFrame:
        pages = (" ".join(f"{character} {x} {y}" for character, x, y in points(boxes)) for boxes in truth)
        return answers.assign(labels=[page or None for page in pages])

    def noisy(boxes: list[Box]) -> list[Point]:
        points: list[Point] = []
        for character, x, y, width, height in boxes:
            u = rng.random()
            if u < 0.15:
                continue
            if u < 0.3:
                character = str(rng.choice(CHARACTERS))
            points.append((character, x + width * rng.uniform(-0.2, 1.2), y + height * rng.uniform(-0.2, 1.2)))
        return points + [(str(rng.choice(CHARACTERS)), *rng.integers(0, 3000, 2)) for _ in range(rng.integers(0, 3))]

    def shared(boxes: list[Box], step: int) -> list[Point]:
        """Return two points for each pair of overlapping boxes: one in both, one in the first box only."""
        points: list[Point] = []
        for (character, x, y, width, height), (*second, _, _) in pairwise(boxes):
            if second == [character, x + width // 3, y + height // 3]:
                in_both = (character, x + width * 0.8, y + height * 0.8)
                points += [in_both, (character, x + width * 0.1, y + height * 0.1)][::step]
        return points

    good = build(noisy)
    centres = build(lambda boxes: [_centre(box) for box in boxes])

    return {
        "centres": centres,
        "centres_backwards": build(lambda boxes: [_centre(box) for box in boxes[::-1]]),
        "each_twice": build(lambda boxes: [_centre(box) for box in boxes] * 2),
        "on_left_edge": build(lambda boxes: [(c, x, y + height / 2) for c, x, y, _, height in boxes]),
        "on_right_edge": build(lambda boxes: [(c, x + width, y + height / 2) for c, x, y, width, height in boxes]),
        "just_inside": build(lambda boxes: [(c, x + width - 0.01, f"{y + 1e-3:.6e}") for c, x, y, width, _ in boxes]),
        "half_empty": good.assign(labels=[labels if k % 2 else None for k, labels in enumerate(good["labels"])]),
        "one_filled": good.assign(labels=[*([None] * (len(good) - 1)), "U+306F 1 1 " + centres["labels"].iloc[-1]]),
        "shared_point_first": build(lambda boxes: shared(boxes, 1)),
        "shared_point_last": build(lambda boxes: shared(boxes, -1)),
        "all_empty": good.assign(labels=None),
        "nowhere": good.assign(labels="U+306F nan inf"),
        "lower_case": good.assign(labels=good["labels"].str.lower()),
        "column_order_and_extra": good.assign(extra=1)[["labels", "extra", "image_id"]],
        "answers_as_submission": answers,
        **first_value(good, "labels", broken_triplet="U+306F 12 13 U+306B 4", double_space="U+306F  12 13"),
        **first_value(good, "labels", trailing_space="U+306F 12 13 ", spaces_in_threes="U+306F 12 13 " + "  "),
        **first_value(good, "labels", text_coordinate="U+306F left 13"),
        "numbers_only": good.assign(labels=5),
        "missing_labels": good[["image_id"]],
        **standard(good, "image_id", "zzz"),
    }
