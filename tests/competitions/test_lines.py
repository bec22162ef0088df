from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import DataError

lines = default_catalogue()["new-york-city-taxi-fare-prediction"].module("lines")
pick_lines = lines.pick_lines


def pick(folder: Path, content: bytes, rows: list[int], **options: int) -> bytes:
    (folder / "source").write_bytes(content)
    (folder / "target").unlink(missing_ok=True)
    pick_lines(folder / "source", np.array(rows, dtype=int), folder / "target", scratch=folder, **options)
    return (folder / "target").read_bytes()


@settings(deadline=None)
@given(
    st.lists(st.text('ab,"é\r ', max_size=8), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
    st.integers(1, 60),
    st.booleans(),
)
def test_lines_are_returned_in_the_requested_order_for_any_part_size(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], random: Random, part_bytes: int, has_end: bool
) -> None:
    content = "\n".join(["header", *lines]) + ("\n" if has_end or not lines[-1] else "")
    rows = random.sample(range(len(lines)), random.randint(0, len(lines)))
    picked = pick(tmp_path_factory.mktemp("lines"), content.encode(), rows, part_bytes=part_bytes)
    assert picked.decode() == "".join(f"{line}\n" for line in ["header", *(lines[row] for row in rows)])


def test_lines_are_found_across_blocks(tmp_path: Path) -> None:
    lines = [b"%d,%s\n" % (k, b"x" * 100) for k in range(200_000)]
    rows = np.random.default_rng(0).permutation(len(lines))[:1000].tolist()
    assert pick(tmp_path, b"header\n" + b"".join(lines), rows) == b"header\n" + b"".join(lines[row] for row in rows)


def test_nothing_is_left_in_the_scratch_folder(tmp_path: Path) -> None:
    pick(tmp_path, b"h\n1\n2\n", [1, 0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_a_missing_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="source has no line 7"):
        pick(tmp_path, b"h\n1\n2\n", [0, 5])
