from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, parse_texts, require_columns, texts
from pytest_mlebench.authoring.metrics.segmentation import area, dices, volume_hausdorff_distance
from pytest_mlebench.authoring.rle import Masks, Runs, cut, decode_rle, decode_rles, pixels, union
from pytest_mlebench.authoring.tables import read_csv

SIZE = ["image_width", "image_height"]


def read_template(public: Path) -> pd.DataFrame:
    """Return the expected rows, with the sizes of their images, which are part of the images' names."""
    rows = read_csv(public / "test.csv")
    names = ((path.parents[1].name, path.name.split("_")) for path in (public / "test").rglob("slice_*.png"))
    sizes = {f"{day}_slice_{number}": (width, height) for day, (_, number, width, height, *_) in names}
    return rows.join(pd.DataFrame.from_dict(sizes, orient="index", columns=SIZE, dtype=float), on="id")


def check(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[Masks, list["Volume"]]:
    """Return the predicted masks of slices and organs, and the volumes of days."""
    require_columns(submission, ["id", "class", "predicted"])
    # Like the reference, pair rows by position: ids, classes and the number of rows are not compared.
    submission = submission.head(len(template))
    return _masks_and_volumes(submission, template.head(len(submission)))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    (true_masks, true_volumes), (masks, volumes) = _masks_and_volumes(answers, answers), check(submission, answers)
    is_paired = true_masks[1] < len(submission)
    true_masks = true_masks[0][is_paired], true_masks[1][is_paired]
    scores = dices(true_masks, masks, _pixels(answers.head(len(submission))), empty=np.nan)
    distances = [_distance(*pair) for pair in zip(true_volumes, volumes, strict=False)]
    return np.float64(0.4 * _mean(scores) + 0.6 * (1 - _mean(np.array(distances))))


@dataclass(frozen=True)
class Volume:
    """The slices of a day, with all organs together: runs in the order slices, columns, rows."""

    shape: tuple[int, int, int]  # slices, width, height
    runs: Runs

    def in_layers(self, width: int, height: int) -> Runs:
        """Return the runs in a volume whose slices are at least as large as this volume's."""
        if (width, height) == self.shape[1:]:
            return self.runs
        columns = cut(self.runs, self.shape[2])
        starts = np.ravel_multi_index(np.unravel_index(columns[:, 0], self.shape), (self.shape[0], width, height))
        return union(np.column_stack([starts, starts + columns[:, 1] - columns[:, 0]]))


def _masks_and_volumes(table: pd.DataFrame, images: pd.DataFrame) -> tuple[Masks, list[Volume]]:
    sizes = _pixels(images)
    masks = _masks(table, sizes)
    return masks, _volumes(table, images, masks)


def _pixels(images: pd.DataFrame) -> pd.Series:
    return images[SIZE].prod(axis=1).astype(int)


def _masks(table: pd.DataFrame, sizes: pd.Series) -> Masks:
    with suppress(ValueError):
        if pd.api.types.is_string_dtype(table["predicted"]):
            return decode_rles(texts(table, "predicted").tolist(), sizes)
    masks = parse_texts(table, "predicted", decode_rle, sizes, expected="pairs of start and length", missing="")
    runs = np.concatenate([*masks, np.empty((0, 2), dtype=np.int64)])
    return runs, np.repeat(np.arange(len(masks)), [len(runs) for runs in masks])


def _volumes(table: pd.DataFrame, images: pd.DataFrame, masks: Masks) -> list[Volume]:
    ids = parse_texts(table, "id", str, expected="an id such as case7_day12_slice_0061")
    rows = pd.DataFrame({"id": ids, "day": [id.split("_slice_")[0] for id in ids]})
    rows["height"] = images["image_height"].to_numpy(int)
    rows["width"] = images["image_width"].to_numpy(int)
    runs, row = masks
    first = np.searchsorted(row, np.arange(len(rows) + 1))
    days = rows.sort_values("id", kind="stable").groupby("day", sort=False)
    return [_volume(str(day), day_rows, runs, first) for day, day_rows in days]


def _volume(day: str, rows: pd.DataFrame, runs: Runs, first: np.ndarray) -> Volume:
    """Return the volume of a day; ``first`` has the index of each row's first run."""
    shapes = rows[["height", "width"]].drop_duplicates().to_numpy()
    if len(shapes) > 1:
        raise InvalidSubmission(
            f"the rows of {day!r} belong to images of {' and '.join(f'{h} x {w}' for h, w in shapes[:2])} pixels; "
            "rows must be in the order of test.csv"
        )
    height, width = map(int, shapes[0])
    number = pd.factorize(rows["id"])[0]
    places = rows.index.to_numpy()
    offsets = np.repeat(number * height * width, first[places + 1] - first[places])
    of_day = pixels(np.column_stack([first[places], first[places + 1]]))
    return Volume((int(number.max()) + 1, width, height), union(runs[of_day] + offsets[:, None]))


def _distance(truth: Volume, predicted: Volume) -> float:
    """Return the Hausdorff distance in the unit cube, as a share of its diagonal; NaN if both volumes are empty."""
    n_true, n_predicted = area(truth.runs), area(predicted.runs)
    if not n_true and not n_predicted:
        return np.nan
    if not n_true or not n_predicted or n_predicted > 10 * n_true:
        return 1.0
    depth, width, height = map(max, truth.shape, predicted.shape)
    runs = [volume.in_layers(width, height) for volume in (truth, predicted)]
    spacing = 1 / np.array(truth.shape)
    return volume_hausdorff_distance(*runs, (depth, width, height), spacing=spacing) / np.sqrt(3)


def _mean(values: np.ndarray) -> float:
    return float(pd.Series(values, dtype=float).mean())  # ignores NaN; NaN if all values are NaN
