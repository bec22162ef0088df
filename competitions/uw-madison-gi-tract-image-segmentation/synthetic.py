from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import encode_rle, mask_from_rle
from pytest_mlebench.authoring.synthetic import first_value, png

CLASSES = ["large_bowel", "small_bowel", "stomach"]
DAYS = [5, 6, 1, 2, 3, 4, 5, 1, 2, 3, 2, 1, 6]  # per case


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases = [f"case{k}" for k in rng.choice(range(2, 160), len(DAYS), replace=False)]
    rows = []
    for case, n_days in zip(cases, DAYS, strict=True):
        width, height = [(10, 10), (12, 9), (9, 13)][rng.integers(3)]
        for number in rng.choice(range(45), n_days, replace=False):  # unordered days, one or two digits
            day = f"{case}_day{number}"
            folder = raw / "train" / case / day / "scans"
            folder.mkdir(parents=True)
            is_blank = rng.random() < 0.1  # a day without any organ
            for k in range(1, int(rng.integers(3, 5))):
                image = png(rng.integers(0, 255, (1, 1), dtype=np.uint8))
                (folder / f"slice_{k:04d}_{width}_{height}_1.50_1.50.png").write_bytes(image)
                for organ in CLASSES:
                    text = encode_rle(_blob(rng, height, width)) if rng.random() < 0.55 and not is_blank else ""
                    rows.append((f"{day}_slice_{k:04d}", organ, text or None))
    pd.DataFrame(rows, columns=["id", "class", "segmentation"]).to_csv(raw / "train.csv", index=False)
    pd.DataFrame(columns=["id", "class", "predicted"]).to_csv(raw / "sample_submission.csv", index=False)


def _blob(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    mask = np.zeros((height, width), dtype=bool)
    row, column = rng.integers(0, height - 2), rng.integers(0, width - 2)
    mask[row : row + rng.integers(1, 5), column : column + rng.integers(1, 5)] = True
    return mask & (rng.random(mask.shape) < 0.9)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    table = pd.read_csv(private / "test.csv", keep_default_na=False)
    shapes = list(zip(table["image_height"].astype(int), table["image_width"].astype(int), strict=True))
    pixels = shapes[0][0] * shapes[0][1]
    answers = table[["id", "class", "predicted"]]
    masks = [mask_from_rle(text, shape) for text, shape in zip(answers["predicted"], shapes, strict=True)]

    def build(predicted: list[np.ndarray]) -> pd.DataFrame:
        return answers.assign(predicted=[encode_rle(mask) for mask in predicted])

    noisy = build([mask ^ (rng.random(mask.shape) < (0.05 if mask.any() else 0.005)) for mask in masks])
    day = noisy["id"].str.split("_slice_").str[0]
    first_day = noisy[day == day.iloc[0]]
    rest = noisy.iloc[1:]
    return {
        "noisy": noisy,
        "shifted_by_a_pixel": build([np.roll(mask, 1, 0) for mask in masks]),
        "all_empty": answers.assign(predicted=""),
        "one_organ_only": noisy.assign(predicted=noisy["predicted"].where(noisy["class"] == "stomach", "")),
        "everything": answers.assign(predicted=[f"1 {height * width}" for height, width in shapes]),
        "first_pixel": answers.assign(predicted="1 1"),
        "columns_swapped_and_extra": noisy.assign(image_height=3)[["predicted", "image_height", "class", "id"]],
        "classes_mixed_up": noisy.assign(**{"class": "stomach"}),
        "no_class_column": noisy[["id", "predicted"]],
        "shuffled": noisy.sample(frac=1, random_state=11),
        "sorted_by_class": noisy.sort_values(["class", "id"]),
        "swapped_neighbours": noisy.iloc[[1, 0, *range(2, len(noisy))]],
        "missing_first_row": rest,
        "missing_last_row": noisy.iloc[:-1],
        "missing_last_day": noisy[day != day.iloc[-1]],
        "half": noisy.head(len(noisy) // 2),
        "first_day_only": first_day,
        "extra_row": pd.concat([noisy, noisy.tail(1).assign(id="case999_day1_slice_0001")]),
        "duplicate_for_missing": pd.concat([rest, noisy.tail(1)]),
        **first_value(noisy, "id", unknown_first_id="case0_day0_slice_0001", missing_id_value=None),
        "first_day_under_one_id": first_day.assign(id=noisy["id"].iloc[0]),
        "ids_without_slice": noisy.assign(id=day),
        "missing_column": noisy[["id", "class"]],
        "numbers": answers.assign(predicted=1),
        **first_value(noisy, "predicted", beyond_the_end=f"{pixels} 40", single_number="7", three_numbers="1 3 10"),
        **first_value(noisy, "predicted", five_numbers="1 3 10 2 20", overlapping_runs="1 5 3 2"),
        **first_value(noisy, "predicted", unsorted_runs="10 5 1 3", start_zero="0 3", length_zero="4 0"),
        **first_value(noisy, "predicted", fraction="1.0 3", dash="-"),
        "header_only": noisy.head(0),
        "empty.csv": "",
    }
