from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

from .. import synthetic as first


def make(raw: Path, seed: int) -> None:
    """In some tweets, the selected text is the word null."""
    first.make(raw, seed)
    tweets = pd.read_csv(raw / "train.csv", dtype=str, keep_default_na=False)
    tweets.loc[tweets.index % 5 == 0, ["text", "selected_text"]] = ["null and void", "null"]
    tweets.to_csv(raw / "train.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype=str, keep_default_na=False)
    selected = answers["selected_text"].str.split().map(lambda words: [word for word in words if rng.random() < 0.6])
    noisy = answers[["textID"]].assign(selected_text=selected.str.join(" "))
    return {
        "whole_tweets": noisy.assign(selected_text=answers["text"]),
        "upper_case": noisy.assign(selected_text=answers["selected_text"].str.upper()),
        "numbers": noisy.assign(selected_text=7),
        **standard(noisy, "textID", "zzzzzzzzzz", "selected_text", "missing_column renamed_id"),
    }
