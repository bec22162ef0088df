from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

WORDS = (
    'students should, therefore, explore Venus because "the author" states that it\'s worthwhile; cars & pollution '
    "electoral college face on Mars déjà vu driverless café – 50% of people agree don't"
).split()


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 312, 3
    ids = rng.choice(16**7, n + n_test, replace=False)
    train = pd.DataFrame(
        {
            "essay_id": [f"{id:07x}" for id in sorted(ids[:n])],
            "full_text": [_essay(rng) for _ in range(n)],
            "score": rng.choice([1, 2, 3, 4, 5, 6], n, p=[0.1, 0.25, 0.3, 0.2, 0.1, 0.05]),
        }
    )
    test = pd.DataFrame(
        {"essay_id": [f"{id:07x}" for id in ids[n:]], "full_text": [_essay(rng) for _ in range(n_test)]}
    )
    train.to_csv(raw / "train.csv", index=False)
    test.to_csv(raw / "test.csv", index=False)
    test[["essay_id"]].assign(score=3).to_csv(raw / "sample_submission.csv", index=False)


def _essay(rng: np.random.Generator) -> str:
    paragraphs = [" ".join(rng.choice(WORDS, rng.integers(8, 30))) for _ in range(rng.integers(1, 4))]
    return ("\n\n" if rng.random() < 0.8 else "\r\n").join(paragraphs) + ("  " if rng.random() < 0.2 else "")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv", dtype={"essay_id": str})
    truth = answers.score
    n = len(answers)

    def scored(score: Any) -> pd.DataFrame:
        return answers[["essay_id"]].assign(score=score)

    def first(score: Any) -> pd.DataFrame:
        return scored(pd.Series([score, *near[1:]], dtype=object))

    near = np.clip(truth + rng.integers(-1, 2, n), 1, 6)
    noisy = scored(near)
    return {
        "constant": scored(3),
        "random": scored(rng.integers(1, 7, n)),
        "inverted": scored(7 - truth),
        "as_float": scored(near.astype(float)),
        "gap_in_labels": scored(np.where(near > 4, 100, near)),
        "one_outlier_1000": first(1000),
        "times_ten": scored(near * 10),
        "only_two_labels": scored(np.where(near > 3, 6, 1)),
        "negative_label": first(-1),
        "extra_column": noisy.assign(note="x"),
        "column_order": noisy[["score", "essay_id"]],
        "fractions": scored(near + 0.5),
        "one_fraction": first(2.5),
        "nan": first(None),
        "text": first("three"),
        "booleans": scored(near > 3),
        "one_row": noisy.head(1),
        **standard(noisy, "essay_id", "zzzzzzz", "score", "missing_column renamed_id all_text"),
    }
