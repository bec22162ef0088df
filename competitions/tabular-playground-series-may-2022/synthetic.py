import string
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

TEST_ROWS = 100_000  # always held out, regardless of the size of the data; most rows are as short as possible
FULL_ROWS = 60  # with every feature


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = TEST_ROWS + 30 + seed
    target = (rng.random(n) < 0.49).astype(int)
    full = np.sort(rng.choice(n, FULL_ROWS, replace=False))
    lines = [f"{i % 10},,,{label}" for i, label in enumerate(target)]
    for i in full:
        word = "".join(rng.choice(list(string.ascii_uppercase[:20]), 10))
        lines[i] = f"{i},{float(rng.standard_normal())!r},{word},{target[i]}"
    (raw / "train.csv").write_text("\n".join(["id,f_00,f_27,target", *lines, ""]))
    (raw / "test.csv").write_text("id,f_00,f_27\n900000,0.442517,BCBCDADBAE\n")
    (raw / "sample_submission.csv").write_text("id,target\n900000,0.5\n")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "gold_submission.csv")
    n = len(answers)
    tenths = np.clip(np.round(5 + 4 * (answers.target - 0.5) + 2 * rng.standard_normal(n)), 0, 9).astype(int)
    ten_levels = answers.assign(target="." + tenths.astype(str))
    few = answers.head(20)
    return {
        "ten_levels_shuffled": ten_levels.sample(frac=1, random_state=5)[["target", "id"]],
        "first_20_rows": few,
        "missing_column": few[["id"]],
        "renamed_id": few.rename(columns={"id": "Id"}),
        "ids_from_zero": pd.DataFrame({"id": range(n), "target": 0}),
        "one_above_one": answers.assign(target=[2, *[0] * (n - 1)]),
        "few_with_text": few.assign(target="yes"),
        "header_only": few.head(0),
        "empty.csv": "",
    }
