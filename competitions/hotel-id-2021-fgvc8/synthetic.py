from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

from .prepare import LISTED_TWICE

SAMPLE = [36363, 53586, 18807]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 154
    hotels = np.concatenate([rng.choice(np.arange(1000, 70000), 29, replace=False), SAMPLE])
    chain_of = dict(zip(hotels, rng.choice([0, 1, 2, 3, 5, 87], len(hotels)), strict=True))
    hotel = rng.choice(hotels, n, p=np.r_[np.full(29, 0.7 / 29), 0.15, 0.1, 0.05])
    images = pd.DataFrame(
        {
            "image": [rng.bytes(8).hex() + ".jpg" for _ in range(n)],
            "chain": [chain_of[h] for h in hotel],
            "hotel_id": hotel,
            "timestamp": pd.to_datetime("2017-01-01") + pd.to_timedelta(rng.integers(0, 10**8, n), unit="s"),
        }
    )
    images.loc[[40, 41], "image"] = LISTED_TWICE
    images.loc[[40, 41], "chain"] = [3, 5]
    images.to_csv(raw / "train.csv", index=False)
    for image, chain in zip(images["image"], images["chain"], strict=True):
        folder = raw / "train_images" / str(chain)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / image).write_bytes(b"\xff\xd8" + rng.bytes(12) + b"\xff\xd9")
    (raw / "test_images").mkdir()
    (raw / "test_images" / "99e91ad5f2870678.jpg").write_bytes(b"\xff\xd8\xff\xd9")
    sample = "image,hotel_id\n99e91ad5f2870678.jpg,36363 53586 18807 64314 60181\n"
    (raw / "sample_submission.csv").write_text(sample)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv", dtype=str)[["image", "hotel_id"]]
    truth = answers["hotel_id"]
    known = pd.read_csv(public / "train.csv", dtype=str)["hotel_id"].unique()

    def others(true: str, k: int) -> list[str]:
        return [hotel for hotel in rng.permutation(known) if hotel != true][:k]

    def lists(shortest: int = 8, longest: int = 8) -> pd.DataFrame:
        """List eight hotels with the true one at its place, cut off after the first few."""
        rows = []
        for true, place in zip(truth, places, strict=True):
            hotels = others(true, 7)
            hotels.insert(place, true)
            rows.append(" ".join(hotels[: min(max(place + 1, shortest), longest)]))
        return answers.assign(hotel_id=rows)

    def repeated(true: str) -> str:
        [other] = others(true, 1)
        return " ".join([other, other, true, true, other])

    places = rng.integers(0, 7, len(answers))
    noisy = lists(longest=5)
    guess = noisy["hotel_id"]
    more_than_five = lists()
    repeats = answers.assign(hotel_id=[repeated(true) for true in truth])
    single = answers.assign(
        hotel_id=[true if place < 4 else others(true, 1)[0] for true, place in zip(truth, places, strict=True)]
    )
    return {
        **standard(noisy, "image", "0000000000000000.jpg", "hotel_id", "missing_column"),
        "more_than_five": more_than_five,
        "repeats": repeats,
        "single": single,
        **first_value(single, "hotel_id", single_one_empty=None),
        "short_lists": lists(shortest=1, longest=3),
        **first_value(noisy, "hotel_id", one_empty=None, text="no idea"),
        "double_spaces": noisy.assign(hotel_id=guess.str.replace(" ", "  ")),
        "leading_space": noisy.assign(hotel_id=" " + guess),
        "leading_zero": noisy.assign(hotel_id="0" + guess),
        "commas": noisy.assign(hotel_id=guess.str.replace(" ", ",")),
        "columns_swapped": noisy[["hotel_id", "image"]],
        "extra_column": noisy.assign(chain=0),
        "duplicate_row": pd.concat([noisy, noisy.tail(1)]),
        "renamed_column": noisy.rename(columns={"image": "Id"}),
    }
