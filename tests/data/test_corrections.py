from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.authoring.corrections import hold_out_groups, near_duplicates
from pytest_mlebench.authoring.synthetic import png


def test_groups_stay_together_and_a_group_of_each_class_stays_in_train() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"group": rng.integers(0, 60, 300)})
    rows["class"] = rows["group"] % 25
    train, test = hold_out_groups("group", classes="class")(rows, test_size=0.2)
    assert len(train) + len(test) == len(rows) and 57 <= len(test) <= 63
    assert not set(train["group"]) & set(test["group"])
    assert set(test["class"]) <= set(train["class"]) == set(rows["class"])


@pytest.mark.parametrize("sizes", [[952, *[3] * 350], [*[7] * 30, 400, *[11] * 60], [*range(1, 70)], [900, 5, 90, 5]])
def test_the_test_set_is_never_much_larger_than_requested(sizes: list[int]) -> None:
    """This holds for any group sizes and any order."""
    for first in range(min(12, len(sizes))):
        names = [*range(first, len(sizes)), *range(first)]
        rows = pd.DataFrame({"group": np.repeat(names, [sizes[name] for name in names])})
        train, test = hold_out_groups("group")(rows, test_size=100)
        assert 85 <= len(test) <= 105
        assert len(train) + len(test) == len(rows) and not set(train["group"]) & set(test["group"])


def test_groups_that_are_all_too_large_cannot_be_held_out() -> None:
    message = "cannot hold out about 10 rows in whole groups: the smallest available has 50 rows"
    with pytest.raises(ValueError, match=message):
        hold_out_groups(lambda rows: rows // 50)(np.arange(100), test_size=0.1)


def test_a_single_group_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="all 3 rows belong to one group"):
        hold_out_groups(lambda rows: ["a"] * len(rows))([1, 2, 3], test_size=0.5)


def test_only_resized_and_brightened_copies_of_an_image_look_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    paths = []
    for k in range(20):
        blocks = rng.integers(0, 200, (8, 9), dtype=np.uint8)
        for name, scale, light in (("plain", 4, 0), ("large", 8, 0), ("light", 4, 50)):
            paths.append(tmp_path / f"{k}_{name}.jpg")  # the content identifies it as PNG
            paths[-1].write_bytes(png(np.kron(blocks, np.ones((scale, scale), dtype=np.uint8)) + np.uint8(light)))
    numbers = near_duplicates(paths).tolist()
    assert numbers[::3] == numbers[1::3] == numbers[2::3]
    assert len(set(numbers)) == 20
