from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.synthetic import standard

from .labels import AUTHORS

TEXT = (
    'the house of shadow fell silent; night, "whispered" he, raven naïve æther Cthulhu\'s tomb lies beyond a '
    "sea-mist where no man's lantern, however bright, could pierce that gloom and I trembled at her cold, dead voice"
)


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 263, 30
    ids = [f"id{i:05d}" for i in rng.choice(28000, n + n_test, replace=False)]
    train = pd.DataFrame(
        {
            "id": ids[:n],
            "text": [_sentence(rng) for _ in range(n)],
            "author": rng.choice(AUTHORS, n, p=[0.4, 0.29, 0.31]),
        }
    )
    train.loc[3, "text"] = "NA"  # is read as a missing value
    test = pd.DataFrame({"id": ids[n:], "text": [_sentence(rng) for _ in range(n_test)]})
    sample = test[["id"]].assign(EAP=0.4, HPL=0.3, MWS=0.3)
    write_zip(raw / "train.zip", {"train.csv": train.to_csv(index=False, quoting=1)})
    write_zip(raw / "test.zip", {"test.csv": test.to_csv(index=False, quoting=1)})
    write_zip(raw / "sample_submission.zip", {"sample_submission.csv": sample.to_csv(index=False)})


def _sentence(rng: np.random.Generator) -> str:
    sentence = " ".join(rng.choice(TEXT.split(), rng.integers(4, 22)))
    kinds = {0: f'"{sentence}," said he, "and nothing more."', 1: sentence + "\nA second line.", 2: f" {sentence}  "}
    return kinds.get(int(rng.integers(0, 12)), sentence)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)

    def table(probabilities: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame({"id": answers["id"]}).join(pd.DataFrame(probabilities, columns=AUTHORS))

    def first_row(values: Any) -> pd.DataFrame:
        return table(np.vstack([values, noisy[1:]]))

    truth = answers[AUTHORS].to_numpy(float)
    noisy = rng.dirichlet([1, 1, 1], n) * 0.7 + truth * 0.3
    noisy /= noisy.sum(1, keepdims=True)
    good = table(noisy)
    wrong = np.roll(truth, 1, axis=1)
    near = np.abs(truth - 1e-14)
    with_text = good.astype(object)
    with_text.iloc[0, 1] = "high"
    return {
        "uniform": table(np.full((n, 3), 1 / 3)),
        "all_wrong": table(wrong),
        "integers_01": table(wrong.astype(int)),
        "half_wrong": table(np.where(np.arange(n)[:, None] % 2 == 0, truth, wrong)),
        "tiny": table(near / near.sum(1, keepdims=True)),
        "column_order": good[["id", "MWS", "EAP", "HPL"]],
        "id_last": good[[*AUTHORS, "id"]],
        "sum_off_9e6": first_row(noisy[0] * (1 + 9e-6)),
        "sum_off_1_05e5": first_row(noisy[0] * (1 + 1.05e-5)),
        "sum_off_1_2e5": first_row(noisy[0] * (1 + 1.2e-5)),
        "sum_low_1_05e5": first_row(noisy[0] * (1 - 1.05e-5)),
        "thirds_rounded": table(np.full((n, 3), 0.33)),
        "extra_column": good.assign(note=1),
        "out_of_range": first_row([1.2, -0.1, -0.1]),
        "nan_probability": first_row([0.5, 0.5, np.nan]),
        "text_probability": with_text,
        **standard(good, "id", "id99999", "MWS", "missing_column renamed_column renamed_id"),
    }
