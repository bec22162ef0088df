import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.rle import encode_rle, mask_from_rle
from pytest_mlebench.authoring.synthetic import first_value, malformed


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = _ids(rng, 20)
    sizes = rng.integers(18, 45, (20, 2))
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    encodings = []
    for k, (id, (height, width)) in enumerate(zip(ids, sizes, strict=True)):
        folder = raw / ("train" if k < 15 else "test")
        (folder / f"{id}.tiff").write_bytes(b"II*\0" + f"{id} {rng.integers(10**9)}".encode())
        encodings.append(encode_rle(_blobs(rng, height, width, rng.integers(2, 7))))
        outline = rng.integers(0, 18, (4, 2)).tolist()
        (folder / f"{id}-anatomical-structure.json").write_text(_feature("Cortex", outline))
        if k < 15:
            (folder / f"{id}.json").write_text(_feature("glomerulus", outline))
    for folder in (raw, raw / "test"):
        (folder / "sample_submission.csv").write_text("id,predicted\n" + "".join(f"{id},\n" for id in ids[15:]))
    pd.DataFrame({"id": ids[:15], "encoding": encodings[:15]}).to_csv(raw / "train.csv", index=False)
    information = pd.DataFrame(
        {
            "image_file": [f"{id}.tiff" for id in ids],
            "width_pixels": sizes[:, 1],
            "height_pixels": sizes[:, 0],
            "anatomical_structures_segmention_file": [f"{id}-anatomical-structure.json" for id in ids],
            "glomerulus_segmentation_file": [f"{id}.json" for id in ids],
            "patient_number": rng.integers(60000, 69999, 20),
            "race": rng.choice(["White", "Black or African American", None], 20),
            "ethnicity": rng.choice(["Not Hispanic or Latino", None], 20),
            "sex": rng.choice(["Male", "Female"], 20),
            "age": rng.integers(20, 80, 20).astype(float),
            "weight_kilograms": rng.normal(80, 15, 20).round(1),
            "height_centimeters": rng.normal(170, 10, 20).round(1),
            "bmi_kg/m^2": rng.normal(27, 4, 20).round(1),
            "laterality": rng.choice(["Left", "Right"], 20),
            "percent_cortex": rng.integers(50, 90, 20),
            "percent_medulla": rng.integers(5, 40, 20),
        }
    )
    information.loc[3, "age"] = np.nan
    shuffled = information.sample(frac=1, random_state=seed)
    shuffled.to_csv(raw / "HuBMAP-20-dataset_information.csv", index=False)


def _ids(rng: np.random.Generator, n: int) -> list[str]:
    """Return distinct hexadecimal ids that end in a letter, so that none looks like a number."""
    ids: dict[str, None] = {}
    while len(ids) < n:
        ids["".join(rng.choice(list("0123456789abcdef"), 8)) + "abcdf"[rng.integers(5)]] = None
    return list(ids)


def _blobs(rng: np.random.Generator, height: int, width: int, count: int) -> np.ndarray:
    mask = np.zeros((height, width), bool)
    y, x = np.mgrid[:height, :width]
    for _ in range(count):
        radius = rng.integers(2, 5)
        mask |= (y - rng.integers(0, height)) ** 2 + (x - rng.integers(0, width)) ** 2 <= radius * radius
    return mask


def _feature(name: str, outline: list[list[int]]) -> str:
    feature = {
        "type": "Feature",
        "id": "PathAnnotationObject",
        "geometry": {"type": "Polygon", "coordinates": [outline]},
        "properties": {"classification": {"name": name}, "isLocked": name == "glomerulus"},
    }
    return json.dumps([feature])


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    shapes = zip(answers["height_pixels"], answers["width_pixels"], strict=True)
    masks = [mask_from_rle(text, shape) for text, shape in zip(answers["encoding"], shapes, strict=True)]
    base = answers[["id"]]

    def build(predicted: list[np.ndarray]) -> pd.DataFrame:
        return base.assign(predicted=[encode_rle(mask) for mask in predicted])

    def first(text: str) -> pd.DataFrame:
        return noisy.assign(predicted=[text, *noisy["predicted"][1:]])

    noisy = build([np.roll(mask, (1, 2), (0, 1)) ^ (rng.random(mask.shape) < 0.03) for mask in masks])
    size = masks[0].size
    numbers = list(map(int, encode_rle(masks[0]).split()))
    all_runs = list(zip(numbers[::2], numbers[1::2], strict=True))
    runs = [(start, length) for start, length in all_runs if start + length < size - 10]
    inside = " ".join(f"{start} {length}" for start, length in runs)
    (start, length), (next_start, _) = sorted(sorted(runs, key=lambda run: -run[1])[:2])
    return {
        "noisy": noisy,
        "noisy_shuffled": noisy.iloc[[2, 0, 1]],
        "column_order_extra": noisy.assign(extra=1)[["extra", "predicted", "id"]],
        "shifted": build([np.roll(mask, 3, 1) for mask in masks]),
        "row_major": build([mask.T.reshape(mask.shape) for mask in masks]),
        "transposed": build([np.resize(mask.T, mask.shape) for mask in masks]),
        "inverted": build([~mask for mask in masks]),
        "everything": build([np.ones_like(mask) for mask in masks]),
        "one_pixel": base.assign(predicted="1 1"),
        **first_value(noisy, "predicted", one_empty=""),
        **first_value(noisy, "predicted", extra_spaces="  " + "   ".join(noisy["predicted"][0].split()) + " "),
        **first_value(noisy, "predicted", to_the_last_pixel=f"{inside} {size - 4} 5"),
        **first_value(noisy, "predicted", past_the_last_pixel=f"{inside} {size - 4} 500"),
        **first_value(noisy, "predicted", start_past_the_end=f"{inside} {size + 1} 3", start_zero="0 3"),
        **first_value(noisy, "predicted", length_zero="1 0", negative_start="-5 3", negative_length="5 -3"),
        **first_value(noisy, "predicted", unsorted="20 3 1 3", overlapping="1 5 3 4"),
        **first_value(noisy, "predicted", touching=f"{start} 1 {start + 1} {length - 1}", same_start="7 1 7 1"),
        **first_value(noisy, "predicted", lone_number=f"{start}", three_numbers=f"{start} {length} {next_start}"),
        **first_value(noisy, "predicted", five_numbers=f"{inside} {size - 4}", float_numbers="5.0 3.0", text="a b"),
        **first_value(noisy, "predicted", commas="5,3", brackets="[5 3]", plus_and_underscore=f"+{start} 0_{length}"),
        **first_value(noisy, "predicted", dash_for_empty="-"),
        "split_runs": first(" ".join(f"{a + k} 1" for a, n in all_runs for k in range(n))),
        "all_lone_numbers": base.assign(predicted=5),
        "column_encoding": noisy.rename(columns={"predicted": "encoding"}),
        **malformed(noisy, "id", "zzz", "predicted", "missing_column"),
    }
