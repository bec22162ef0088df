from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .. import synthetic as first


def make(raw: Path, seed: int) -> None:
    """Some comments are equal but have different labels; one is the word NA."""
    first.make(raw, seed)
    path = raw / "test_with_solutions.csv"
    test = pd.read_csv(path)
    test.loc[20:24, "Comment"], test.loc[20:24, "Insult"] = "Same here", 1
    test.loc[40:44, "Comment"], test.loc[40:44, "Insult"] = "Same here", 0
    test.loc[30, "Comment"] = "NA"
    test.to_csv(path, index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    noisy = answers.assign(Insult=(0.6 * answers.Insult + rng.random(len(answers)) * 0.76).clip(0, 1))
    return {
        "inverted": noisy.assign(Insult=1 - noisy.Insult),
        "with_comments": noisy.assign(Comment="x"),
        **standard(noisy, "id", 10**6, "Insult", "missing_column missing_id nan_prediction text_prediction above_one"),
    }
