from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

IDENTITIES = """male female transgender other_gender heterosexual homosexual_gay_or_lesbian bisexual
    other_sexual_orientation christian jewish muslim hindu buddhist atheist other_religion black white asian latino
    other_race_or_ethnicity physical_disability intellectual_or_learning_disability psychiatric_or_mental_illness
    other_disability""".split()
KINDS = ["severe_toxicity", "obscene", "sexual_explicit", "identity_attack", "insult", "threat"]
WORDS = (
    'you are, right "said" he it\'s silly; nobody – voted for taxes again café ☕ church men women news http://t.co/a'
).split()


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_train, n_test = 180, 150
    train_ids = np.sort(rng.choice(10**6, n_train, replace=False)) + 59848
    train = _comments(rng, train_ids, _toxicity(rng, n_train), "target")
    train.loc[rng.choice(n_train, 60, replace=False), IDENTITIES] = np.nan
    train.loc[7, "comment_text"] = None
    ids = np.arange(7000000, 7000000 + n_test) + np.cumsum(rng.integers(0, 3, n_test))
    test = _comments(rng, rng.permutation(ids), _toxicity(rng, n_test), "toxicity")
    test.loc[rng.choice(n_test, 8, replace=False), "muslim"] = np.nan
    test.loc[2, "comment_text"] = None
    test.loc[4, "comment_text"] = "NA"
    train.to_csv(raw / "train.csv", index=False)
    test.to_csv(raw / "test_private_expanded.csv", index=False)
    test.assign(id=test.id + 100000).head(10).to_csv(raw / "test_public_expanded.csv", index=False)
    test[["id", "comment_text"]].to_csv(raw / "test.csv", index=False)
    test[["id"]].assign(prediction=0.0).to_csv(raw / "sample_submission.csv", index=False)


def _comments(rng: np.random.Generator, ids: np.ndarray, toxicity: np.ndarray, name: str) -> pd.DataFrame:
    n = len(ids)
    table = pd.DataFrame({"id": ids, "comment_text": [_comment(rng) for _ in range(n)]})
    digits = [rng.integers(1, 10, n) for _ in range(3)]
    table["created_date"] = [
        f"2017-0{month}-1{day} 0{hour}:34:{second:02d}.{fraction:06d}+00"
        for month, day, hour, second, fraction in zip(
            *digits, rng.integers(0, 60, n), rng.integers(0, 10**6, n), strict=True
        )
    ]
    table["publication_id"] = rng.integers(2, 120, n)
    table["parent_id"] = np.where(rng.random(n) < 0.5, np.nan, rng.integers(10**5, 10**6, n))
    table["article_id"] = rng.integers(10**5, 4 * 10**5, n)
    table["rating"] = rng.choice(["approved", "rejected"], n)
    for reaction in ("funny", "wow", "sad", "likes", "disagree"):
        table[reaction] = rng.integers(0, 5, n)
    table[name] = toxicity
    for kind in KINDS:
        table[kind] = np.where(rng.random(n) < 0.7, 0.0, np.round(rng.random(n), 3))
    for identity in IDENTITIES:
        table[identity] = np.where(rng.random(n) < 0.35, 1.0, 0.0)
        border = rng.random(n)
        table.loc[border < 0.08, identity] = 0.5
        table.loc[(border > 0.08) & (border < 0.16), identity] = 0.4999
    table["identity_annotator_count"] = rng.integers(3, 11, n)
    table["toxicity_annotator_count"] = rng.integers(3, 11, n)
    return table


def _comment(rng: np.random.Generator) -> str:
    comment = " ".join(rng.choice(WORDS, rng.integers(2, 9)))
    return comment + ("\n\nAgreed." if rng.random() < 0.15 else "")


def _toxicity(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.5, rng.choice([0.0, 0.5, 1.0], n), np.round(rng.random(n), rng.integers(1, 15)))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers.toxicity
    n = len(answers)

    def predicted(prediction: Any) -> pd.DataFrame:
        return answers[["id"]].assign(prediction=prediction)

    noise = np.clip(truth + rng.normal(0, 0.35, n), 0, 1)
    noisy = predicted(noise)
    return {
        "answers_only_prediction": predicted(truth),
        "half_confidence": predicted(truth * 0.499),
        "scaled_to_upper_half": predicted(0.5 + truth / 2),
        "biased": predicted(np.where(answers.muslim >= 0.5, 1.0, truth)),
        "inverted": predicted(np.where(truth >= 0.5, 0.0, 1.0)),
        "random": predicted(rng.random(n)),
        "constant_one": predicted(1.0),
        "exactly_half": predicted(np.where(truth >= 0.5, 0.5, 0.49999999)),
        "integers": predicted((noise >= 0.5).astype(int)),
        "out_of_range": predicted(noise * 8 - 3),
        "nan": predicted([None, *noise[1:]]),
        "all_nan": predicted(None),
        "text": predicted(["toxic", *noise[1:]]),
        "booleans": predicted(noise >= 0.5),
        "both_columns": noisy.assign(toxicity=truth),
        "toxicity_column": noisy.rename(columns={"prediction": "toxicity"}),
        "column_order": noisy[["prediction", "id"]],
        "extra_column": noisy.assign(note="x"),
        "one_row": noisy.head(1),
        **standard(noisy, "id", 1, "prediction", "missing_column renamed_id"),
    }
