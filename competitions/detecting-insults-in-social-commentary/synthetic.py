import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value

RUDE = [
    "you are an idiot",
    "shut up moron",
    "what a clown you are",
    "go back to school, fool",
    "nobody likes you, loser",
]
MILD = [
    "thanks for the link",
    "I disagree, but fine",
    "the game starts at 8",
    "nice photo!",
    "prices went up again",
    "see page 3; it says so",
]
ODD = [
    "caf\\xe9 tonight?",
    "line one\\nline two",
    'he said \\"no\\", twice',
    "100% sure, really",
    "\\u201cquoted\\u201d",
    "tab\\there",
    "NA",
    "null",
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    taken: set[str] = set()
    train, test, verification = (_comments(rng, n, taken) for n in (90, 60, 8))
    # some comments have no extra quotes, but a real line break or letters beyond ASCII
    train.loc[3, "Comment"], train.loc[4, "Comment"] = "no quotes, here", "two\nlines"
    test.loc[5, "Comment"], test.loc[6, "Comment"] = "two\nlines of test", "déjà vu, naïve"
    # one occurs twice, with the same label
    test.loc[11, ["Insult", "Comment"]] = test.loc[10, ["Insult", "Comment"]].to_list()
    # unlike pandas' default, with more quotes and Windows line breaks
    style: dict[str, Any] = {"index": False, "quoting": csv.QUOTE_NONNUMERIC, "lineterminator": "\r\n"}
    train.to_csv(raw / "train.csv", **style)
    test["Usage"] = np.where(rng.random(len(test)) < 0.3, "PublicTest", "PrivateTest")
    test.astype({"Insult": int}).to_csv(raw / "test_with_solutions.csv", **style)
    verification.insert(0, "id", range(1, len(verification) + 1))
    verification.drop(columns="Insult").to_csv(raw / "test.csv", index=False)
    verification.assign(Insult=0).to_csv(raw / "sample_submission_null.csv", index=False)
    verification.assign(Usage="PrivateTest").to_csv(raw / "impermium_verification_labels.csv", index=False)
    verification.to_csv(raw / "impermium_verification_set.csv", index=False)


def _comments(rng: np.random.Generator, n: int, taken: set[str]) -> pd.DataFrame:
    labels, comments = [], []
    while len(comments) < n:
        rude = rng.random() < 0.35
        parts = rng.choice(RUDE if rude else MILD, rng.integers(1, 3)).tolist()
        if rng.random() < 0.35:
            parts.append(str(rng.choice(ODD)))
        comment = f'"{" ".join(parts)} #{rng.integers(1, 10**5)}"'  # the quotes are part of the text
        if comment not in taken:
            taken.add(comment)
            comments.append(comment)
            labels.append(int(rude if rng.random() < 0.9 else not rude))
    dates = [
        "2012"
        + "".join(f"{rng.integers(*bounds):02d}" for bounds in ((1, 9), (1, 29), (0, 24), (0, 60), (0, 60)))
        + "Z"
        for _ in comments
    ]
    return pd.DataFrame({"Insult": labels, "Date": np.where(rng.random(n) < 0.2, None, dates), "Comment": comments})


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "gold_submission.csv")
    n = len(answers)
    noisy = answers.assign(Insult=(0.6 * answers.Insult + rng.random(n) * 0.4 * 1.9).clip(0, 1))
    twins = answers.index[answers.Comment.duplicated(keep=False)]
    noisy.loc[twins, "Insult"] = noisy.loc[twins[0], "Insult"]
    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.sample(frac=1, random_state=2),
        "ties": noisy.assign(Insult=noisy.Insult.round(1)),
        "inverted": noisy.assign(Insult=1 - noisy.Insult),
        "only_two_columns": noisy[["Comment", "Insult"]],
        "extra_column": noisy.assign(Usage="x"),
        "hard_labels": noisy.assign(Insult=(noisy.Insult > 0.5).astype(int)),
        "wrong_dates": noisy.assign(Date="20000101000000Z"),
        "above_one": noisy.assign(Insult=noisy.Insult * 2),
        "negative": noisy.assign(Insult=noisy.Insult - 0.5),
        "missing_row": noisy.iloc[1:],
        "extra_row": pd.concat([noisy, noisy.tail(1)]),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        **first_value(noisy, "Comment", changed_comment="something else", empty_comment=None),
        "missing_target": noisy[["Date", "Comment"]],
        "missing_comment": noisy[["Insult", "Date"]],
        **first_value(noisy, "Insult", nan_prediction=None, text_prediction="yes"),
        "empty.csv": "",
    }
