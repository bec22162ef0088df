from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.data.authoring.rle import Runs, decode_rle, pixels, union
from pytest_mlebench.data.authoring.tables import read_csv
from pytest_mlebench.grading import InvalidSubmission, parse_texts, require_columns
from pytest_mlebench.grading.metrics.segmentation import area, dice, volume_hausdorff_distance

SIZE = ["image_width", "image_height"]


def read_template(public: Path) -> pd.DataFrame:
    """The expected rows, with the sizes of their images, which stand in the images' names."""
    rows = read_csv(public / "test.csv")
    names = ((path.parents[1].name, path.name.split("_")) for path in (public / "test").rglob("slice_*.png"))
    sizes = {f"{day}_slice_{number}": (width, height) for day, (_, number, width, height, *_) in names}
    return rows.join(pd.DataFrame.from_dict(sizes, orient="index", columns=SIZE, dtype=float), on="id")


def check(submission: pd.DataFrame, template: pd.DataFrame) -> tuple[list[Runs], list["Volume"]]:
    """The predicted masks of slices and organs, and the volumes of days."""
    require_columns(submission, ["id", "class", "predicted"])
    # Rows are paired as they come: the reference compares neither ids nor classes nor the number of rows.
    submission = submission.head(len(template))
    return _masks_and_volumes(submission, template.head(len(submission)))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    true, predicted = _masks_and_volumes(answers, answers), check(submission, answers)
    dices = [dice(*pair, empty=np.nan) for pair in zip(true[0], predicted[0], strict=False)]
    distances = [_distance(*pair) for pair in zip(true[1], predicted[1], strict=False)]
    return np.float64(0.4 * _mean(dices) + 0.6 * (1 - _mean(distances)))


@dataclass(frozen=True)
class Volume:
    """The slices of a day, all organs together: runs that go through the slices, down their columns."""

    shape: tuple[int, int, int]  # slices, width, height
    runs: Runs

    def in_layers(self, width: int, height: int) -> Runs:
        """The runs in a volume whose slices have at least the size of the volume's own."""
        if (width, height) == self.shape[1:]:
            return self.runs
        starts = np.ravel_multi_index(np.unravel_index(pixels(self.runs), self.shape), (self.shape[0], width, height))
        return union(np.column_stack([starts, starts + 1]))


def _masks_and_volumes(table: pd.DataFrame, images: pd.DataFrame) -> tuple[list[Runs], list[Volume]]:
    sizes = images[SIZE].prod(axis=1).astype(int)
    masks = parse_texts(table, "predicted", decode_rle, sizes, expected="pairs of start and length", missing="")
    return masks, _volumes(table, images, masks)


def _volumes(table: pd.DataFrame, images: pd.DataFrame, masks: Sequence[Runs]) -> list[Volume]:
    ids = parse_texts(table, "id", str, expected="an id such as case7_day12_slice_0061")
    rows = pd.DataFrame({"id": ids, "day": [id.split("_slice_")[0] for id in ids], "mask": range(len(ids))})
    rows["height"] = images["image_height"].to_numpy(int)
    rows["width"] = images["image_width"].to_numpy(int)
    days = rows.sort_values("id", kind="stable").groupby("day", sort=False)
    return [_volume(str(day), day_rows, masks) for day, day_rows in days]


def _volume(day: str, rows: pd.DataFrame, masks: Sequence[Runs]) -> Volume:
    shapes = rows[["height", "width"]].drop_duplicates().to_numpy()
    if len(shapes) > 1:
        raise InvalidSubmission(
            f"the rows of {day!r} fall on images of {' and '.join(f'{h} x {w}' for h, w in shapes[:2])} pixels; "
            "rows must be in the order of test.csv"
        )
    height, width = map(int, shapes[0])
    slices = [masks[k] for k in rows["mask"]]
    number = pd.factorize(rows["id"])[0]
    offsets = np.repeat(number * height * width, [len(runs) for runs in slices])
    runs = np.concatenate(slices) + offsets[:, None]
    return Volume((int(number.max()) + 1, width, height), union(runs))


def _distance(truth: Volume, predicted: Volume) -> float:
    """The Hausdorff distance in a volume scaled to a unit cube, as a share of its diagonal; NaN if both are empty."""
    n_true, n_predicted = area(truth.runs), area(predicted.runs)
    if not n_true and not n_predicted:
        return np.nan
    if not n_true or not n_predicted or n_predicted > 10 * n_true:
        return 1.0
    depth, width, height = map(max, truth.shape, predicted.shape)
    runs = [volume.in_layers(width, height) for volume in (truth, predicted)]
    spacing = 1 / np.array(truth.shape)
    return volume_hausdorff_distance(*runs, (depth, width, height), spacing=spacing) / np.sqrt(3)


def _mean(values: list[float]) -> float:
    return float(pd.Series(values, dtype=float).mean())  # NaN is left out; NaN if nothing is left
