from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

SAMPLE = ["w_1287fbc", "w_98baff9", "w_7554f44", "w_1eafe46"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    whales = [*SAMPLE]
    while len(whales) < 58:
        whale = "w_" + _hexadecimal(rng, 7)
        if whale not in whales:
            whales.append(whale)
    counts = np.r_[[5, 4, 3, 2], rng.choice([1, 2, 3, 6], len(whales) - 4, p=[0.55, 0.2, 0.15, 0.1])]
    ids = np.r_[np.repeat(whales, counts), ["new_whale"] * 22]
    rng.shuffle(ids)
    n, names = len(ids), []
    while len(names) < n + 8:
        name = _hexadecimal(rng, 8) + ".jpg"
        if name not in names:
            names.append(name)
    train = pd.DataFrame({"Image": sorted(names[:n]), "Id": ids})
    train.to_csv(raw / "train.csv", index=False)
    test = sorted(names[n:])
    for folder, files in (("train", train["Image"]), ("test", test)):
        (raw / folder).mkdir()
        for name in files:
            image = b"\xff\xd8" + f"{name}{rng.integers(10**6)}".encode() + b"\xff\xd9"
            (raw / folder / name).write_bytes(image)
    sample = pd.DataFrame({"Image": test, "Id": " ".join(["new_whale", *SAMPLE])})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _hexadecimal(rng: np.random.Generator, n: int) -> str:
    return "".join(rng.choice(list("0123456789abcdef"), n))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers["Id"]
    whales = pd.read_csv(public / "train.csv")["Id"].unique()
    noisy = answers.assign(Id=[" ".join(_guess(true, whales, rng)) for true in truth])
    guess = noisy["Id"]
    some_empty = noisy.copy()
    some_empty.loc[::3, "Id"] = np.nan
    return {
        **standard(noisy, "Image", "00000000.jpg", "Id", "missing_column renamed_column nan_id"),
        "column_order": noisy[["Id", "Image"]],
        "always_new": noisy.assign(Id="new_whale"),
        "truth_repeated": noisy.assign(Id=["w_x " + " ".join([true] * 3) for true in truth]),
        "repeated_wrong_first": noisy.assign(Id="w_x w_x w_x " + truth),
        "truth_sixth": noisy.assign(Id="a b c d e " + truth),
        "leading_space": noisy.assign(Id=" " + guess),
        "double_spaces": noisy.assign(Id=guess.str.replace(" ", "  ")),
        "trailing_space": noisy.assign(Id=guess + " "),
        "tabs": noisy.assign(Id=guess.str.replace(" ", "\t")),
        "commas": noisy.assign(Id=guess.str.replace(" ", ",")),
        "upper_case": noisy.assign(Id=guess.str.upper()),
        "some_empty": some_empty,
        "all_empty": noisy.assign(Id=""),
        "numbers": noisy.assign(Id=range(len(noisy))),
        "extra_column": noisy.assign(score=1),
        "repeated_row": pd.concat([noisy, noisy.tail(1)]),
    }


def _guess(true: str, whales: Sequence[str], rng: np.random.Generator) -> list[str]:
    k = rng.integers(1, 8)
    guess = list(rng.choice(whales, k, replace=False))
    if rng.random() < 0.7:
        guess.insert(rng.integers(0, k + 1), true)  # sometimes after the fifth place
    return guess
