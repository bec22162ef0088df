from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard
from pytest_mlebench.authoring.tables import split

WORDS = ["happy", "Sooo", "SAD", "I`ll", "miss", "you,", "bullying", "me...", "my", "boss", "is", "“great”", "fun!!"]
WORDS += ["http://x.co/1", "leave", "me", "alone", '"quoted"', "naïve", "ÉTÉ", "****", "été", "day", "the", "the", ":)"]
WORDS += ["_user_", "İstanbul", "😀", "nbsp\u00a0here"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 340, 20
    rows = [(f"{id:010x}", *_tweet(rng)) for id in rng.choice(16**10, n, replace=False)]
    train = pd.DataFrame(rows, columns=["textID", "text", "selected_text", "sentiment"])
    kept, _ = split(np.arange(n), test_size=0.1)
    train.loc[kept[5], ["text", "selected_text"]] = [None, None]  # one training row has no text
    test = train.dropna().sample(n_test, random_state=seed)
    train.to_csv(raw / "train.csv", index=False)
    test.drop(columns="selected_text").to_csv(raw / "test.csv", index=False)
    test[["textID"]].assign(selected_text="").to_csv(raw / "sample_submission.csv", index=False)


def _tweet(rng: np.random.Generator) -> tuple[str, str, str]:
    words = list(rng.choice(WORDS, rng.integers(2, 12)))
    text = (" " if rng.random() < 0.3 else "") + ("  " if rng.random() < 0.1 else " ").join(words)
    text += "\n" if rng.random() < 0.05 else ""
    sentiment = str(rng.choice(["positive", "negative", "neutral"]))
    if sentiment == "neutral":
        return text, text.strip(), sentiment
    start = rng.integers(0, len(words))
    selected = " ".join(words[start : rng.integers(start + 1, len(words) + 1)])
    if rng.random() < 0.15 and len(selected) > 3:  # some labels begin in the middle of a word
        selected = selected[1:]
    return text, selected, sentiment


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype={"textID": str})
    texts, truth = answers.text, answers.selected_text
    n = len(answers)

    def selected(texts: Any) -> pd.DataFrame:
        return answers[["textID"]].assign(selected_text=texts)

    def first(text: str) -> pd.DataFrame:
        return selected([text, *noisy.selected_text[1:]])

    parts = [" ".join(word for word in words if rng.random() < 0.6) for words in texts.str.split()]
    noisy = selected(np.where(rng.random(n) < 0.5, truth, parts))
    return {
        "whole_text": selected(texts),
        "upper_case": selected(truth.str.upper()),
        "repeated_words": selected(truth + " " + truth),
        "double_spaces": selected(truth.str.replace(" ", "  \t")),
        "words_reversed": selected([" ".join(reversed(words)) for words in truth.str.split()]),
        "one_empty": first(""),
        "one_NA": first("NA"),
        "one_null": first("null"),
        "all_whitespace": selected("   "),
        "numbers": selected(range(n)),
        "answers_sorted": selected(truth).sort_values("textID"),
        "column_order": noisy[["selected_text", "textID"]],
        "extra_column": noisy.assign(sentiment=answers.sentiment),
        **standard(noisy, "textID", "zzzzzzzzzz", "selected_text", "missing_column renamed_column renamed_id"),
    }
