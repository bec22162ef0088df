import io
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_mlebench.authoring import alignment
from pytest_mlebench.grading.scorer import Pieces, read_table

FIELDS = ["", "0", "-7", "0.1", "1e400", "9007199254740993", "9223372036854775808", "nan", "inf", "True", "x", '"1"']


FEW = Pieces(many=1, piece=2, first=1)


@settings(deadline=None)
@given(
    st.sampled_from(["a,b", "a,a", "a"]),
    st.lists(st.lists(st.one_of(st.sampled_from(FIELDS[:5]), st.sampled_from(FIELDS)), min_size=1, max_size=3)),
)
def test_a_table_read_in_chunks_equals_that_of_pandas(header: str, rows: list[list[str]]) -> None:
    content = "\n".join([header, *map(",".join, rows)]).encode()
    try:
        expected = pd.read_csv(io.BytesIO(content))
    except ValueError as error:
        with pytest.raises(type(error)) as raised:
            read_table(io.BytesIO(content), len(rows) + 1, FEW)
        assert str(raised.value) == str(error)
    else:
        pd.testing.assert_frame_equal(read_table(io.BytesIO(content), len(rows) + 1, FEW), expected, check_exact=True)


@pytest.mark.parametrize("late", ["0.5", "", "x", "True", "9223372036854775808", "3,4,5", "\xff"])
def test_unusual_values_in_the_last_row_are_read_as_by_pandas(late: str) -> None:
    content = ("a,b\n" + "1,2\n" * 9 + f"3,{late}\n").encode("latin-1")
    try:
        expected = pd.read_csv(io.BytesIO(content))
    except ValueError as error:
        with pytest.raises(type(error)):
            read_table(io.BytesIO(content), 11, FEW)
    else:
        pd.testing.assert_frame_equal(read_table(io.BytesIO(content), 11, FEW), expected, check_exact=True)


READ = """
import sys
from pathlib import Path
from pytest_mlebench.grading.scorer import read_answers

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10

before = peak()
table = read_answers(Path(sys.argv[1]))
print(peak() - before, table.memory_usage(index=False).sum())
"""


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks of memory are read from Linux's /proc")
def test_millions_of_numbers_take_less_memory_than_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    with path.open("w") as file:
        file.write("a,b,c\n")
        file.writelines(f"{row},{row / 7},{row / 3}\n" for row in range(1_200_000))
    command = [sys.executable, "-c", READ, str(path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    assert int(reply[0]) < 3.2 * int(reply[1])  # 2.7 times the table; pandas' read_csv takes 3.8


def test_pairing_a_million_ids_needs_few_bytes_per_id() -> None:
    ids = np.arange((1 << 20) - 1) * 9973
    shuffled = np.random.default_rng(0).permutation(ids)
    submission, answers = pd.DataFrame({"id": shuffled}), pd.DataFrame({"id": ids})
    tracemalloc.start()
    try:
        order = alignment(submission, answers, "id")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 16 * len(ids)
    assert (shuffled[order] == ids).all()
