from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

WORDS = (
    "abatement absorbent acid adapter air antenna axial base battery belt cable carrier cell channel clamp coating "
    "composite control coil cooling data device display drive electrode element film filter flow fluid frame gear "
    "guide heat housing layer lens light liquid membrane metal motor optical panel plate pressure ring rotor sensor "
    "shaft signal surface switch tube valve vessel wall wire"
).split()
ODD = ['a, b and "c"', "inner space , outer", "l'eau", "γ ray µ sensor", "3 d printing", "two  spaces", "tab\there"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test, n_anchors = 240, 12, 30
    anchors = [_phrase(rng, rng.integers(1, 4)) for _ in range(n_anchors)]
    sections, classes = rng.choice(list("ABCDEFGH"), n_anchors), rng.integers(1, 63, n_anchors)
    contexts = [f"{section}{number:02d}" for section, number in zip(sections, classes, strict=True)]

    def pairs(n: int) -> pd.DataFrame:
        chosen = np.sort(rng.integers(0, n_anchors, n))
        return pd.DataFrame(
            {
                "id": [_id(rng) for _ in range(n)],
                "anchor": [anchors[k] for k in chosen],
                "target": [_phrase(rng, rng.integers(1, 5)) for _ in chosen],
                "context": [contexts[k] for k in chosen],
                "score": rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], n, p=[0.2, 0.32, 0.34, 0.11, 0.03]),
            }
        )

    train = pairs(n)
    train.loc[np.arange(len(ODD)) * 7, "target"] = ODD
    test = pairs(n_test).drop(columns="score")
    train.to_csv(raw / "train.csv", index=False)
    test.to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(score=0).to_csv(raw / "sample_submission.csv", index=False)


def _phrase(rng: np.random.Generator, n_words: int) -> str:
    return " ".join(rng.choice(WORDS, n_words))


def _id(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list("0123456789abcdef"), 15)) + "abcdef"[rng.integers(6)]


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["id", "score"]]
    n = len(answers)

    def scored(score: Any) -> pd.DataFrame:
        return answers.assign(score=score)

    def third(value: Any) -> pd.DataFrame:
        return scored([*score[:2], value, *score[3:]])

    score = answers.score + rng.normal(0, 0.3, n)
    noisy = scored(score)
    return {
        "column_order_extra": noisy.assign(extra="x")[["extra", "score", "id"]],
        "rounded": scored((score.clip(0, 1) * 4).round() / 4),
        "reversed": scored(1 - score),
        "affine": scored(1000 * score - 77),
        "huge": scored(score * 1e200),
        "integers": scored((score > 0.5).astype(int)),
        "booleans": scored(score > 0.5),
        "random": scored(rng.random(n)),
        "constant": scored(0.5),
        "nan_prediction": third(np.nan),
        "infinite": third(np.inf),
        "one_text": third("high"),
        "all_empty": scored(""),
        **standard(noisy, "id", "f" * 16, "score", "missing_column renamed_column all_text"),
    }
